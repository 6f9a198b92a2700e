#!/usr/bin/perl

# The real Redis::JobQueue, made to work by requests: one JSON object a line on
# standard input, one JSON object a line on standard output.
#
#   { "on": HANDLE or CLASS, "method": NAME, "args": [FORM, ...], "scalar": BOOL }
#
# calls a method of an object that an earlier answer named, or of a class, and
# answers
#
#   { "returned": [FORM, ...], "died": TEXT or null,
#     "last_errorcode": NUMBER, "last_error": TEXT }     (the last two of a queue)
#
# Values are tagged forms (Tagged.pm).  A queue or a job that is returned stays
# here and has a "handle"; { "t": "handle", "v": HANDLE } passes it as an
# argument.  { "look": HANDLE } answers what an object is now, { "forget": true }
# drops all of them.

use strict;
use warnings;
no warnings 'recursion';

use FindBin;
use lib $FindBin::Bin;
use JSON::PP;
use Scalar::Util qw(blessed refaddr);
use Tagged qw(from_tagged to_tagged);

use Redis::JobQueue;
use Redis::JobQueue::Job;

my @objects;
my %handle_of;
my $json = JSON::PP->new->ascii->canonical->max_depth(100_000);

sub handle_of {
    my ($object) = @_;
    my $address = refaddr $object;
    unless ( defined $handle_of{$address} ) {
        push @objects, $object;
        $handle_of{$address} = $#objects;
    }
    return $handle_of{$address};
}

sub describe {
    my ($value) = @_;
    my $class = blessed $value // '';
    return { t => 'jobqueue', handle => handle_of($value) } if $class eq 'Redis::JobQueue';
    return ( to_tagged( \$value ) )[0] unless $class eq 'Redis::JobQueue::Job';
    my %attributes;
    for my $name ( $value->job_attributes ) {
        my $attribute = $value->$name;
        ( $attributes{$name} ) = to_tagged( \$attribute );
    }
    return {
        t          => 'job',
        handle     => handle_of($value),
        attributes => \%attributes,
        modified   => [ $value->modified_attributes ],
    };
}

# What was said when it died, without the place in the source.
sub first_line {
    my ($error) = @_;
    my ($line) = "$error" =~ /\A([^\n]*)/;
    $line =~ s/ at \S+ line \d+.*//;
    return $line;
}

sub call {
    my ($request) = @_;
    my ( $on, $method ) = @$request{qw(on method)};
    my @args     = map { $$_ } from_tagged( \@objects, @{ $request->{args} // [] } );
    my $receiver = $on =~ /^\d+$/ ? $objects[$on] // die "no object with handle $on\n" : $on;
    my ( @returned, %answer );
    my $lived = eval {
        if ( $request->{scalar} ) { $returned[0] = $receiver->$method(@args) }
        else                      { @returned    = $receiver->$method(@args) }
        1;
    };
    $answer{died}     = $lived ? undef : first_line($@);
    $answer{returned} = $lived ? [ map { describe($_) } @returned ] : [];
    if ( ref $receiver and $receiver->isa('Redis::JobQueue') ) {
        $answer{last_errorcode} = 0 + $receiver->last_errorcode;
        $answer{last_error}     = '' . $receiver->last_error;
    }
    return \%answer;
}

$| = 1;
while ( defined( my $line = <STDIN> ) ) {
    my $answer = eval {
        my $request = $json->decode($line);
        if ( $request->{forget} ) {
            @objects   = ();
            %handle_of = ();
            { returned => [], died => undef };
        }
        elsif ( defined $request->{look} ) {
            { returned => [ describe( $objects[ $request->{look} ] ) ], died => undef };
        }
        else { call($request) }
    } || { refused => "$@" };
    print $json->encode($answer), "\n";
}
