# Perl's core Storable as a peer: reads one JSON request a line, answers with one.
#
#   {"describe": image, "overloaded": [class, ...]}
#       -> {"text": what ${ thaw(image) } is, every detail that Perl can tell}
#   {"refreeze": image, "overloaded": [...]}
#       -> {"image": nfreeze of the thawed value, keys sorted, "native": freeze of it}
#   {"evaluate": Perl expression}
#       -> {"image": nfreeze of a reference to its value}
#   anything that dies -> {"died": first line}
#
# Images are base64.

use strict;
use warnings;
no warnings qw(recursion once);

use B ();
use Encode ();
use Hash::Util ();
use JSON::PP ();
use overload ();
use MIME::Base64 qw(decode_base64 encode_base64);
use Scalar::Util qw(blessed isvstring isweak refaddr reftype);
use Storable ();

$Storable::canonical = 1;
$Storable::Deparse   = 1;

# Code stays text: a sub for each source, which is known by its address.
my %source;
my @kept;
$Storable::Eval = sub {
    my ($text) = @_;
    my $sub = sub { $text };
    push @kept, $sub;
    $source{ refaddr $sub } = $text;
    return $sub;
};

# Every class can thaw: an object then shows what its STORABLE_thaw was given.
sub UNIVERSAL::STORABLE_thaw {
    my ( $object, undef, $frozen, @refs ) = @_;
    my $given = { frozen => $frozen, refs => \@refs };
    my $type = reftype $object;
    if    ( $type eq 'HASH' and not tied %$object )  { %$object = %$given }
    elsif ( $type eq 'ARRAY' and not tied @$object ) { @$object = %$given{qw(frozen refs)} }
    elsif ( $type eq 'SCALAR' and not tied $$object ) { $$object = $given }
    return;
}

my $json = JSON::PP->new->canonical->ascii;
$| = 1;
while ( my $line = <STDIN> ) {
    my $request = $json->decode($line);
    my $answer  = eval { answer($request) };
    $answer = { died => ( split /\n/, $@ )[0] } unless $answer;
    print $json->encode($answer), "\n";
}

sub answer {
    my ($request) = @_;
    overload_class($_) for @{ $request->{overloaded} || [] };
    if ( exists $request->{evaluate} ) {
        my $value = eval $request->{evaluate};
        die $@ if $@;
        return { image => encode_base64( Storable::nfreeze( \$value ), '' ) };
    }
    my $image = decode_base64( exists $request->{describe} ? $request->{describe} : $request->{refreeze} );
    my $root = Storable::thaw($image);
    die "thaw returned undef\n" unless defined $root;
    if ( exists $request->{describe} ) {
        my $text = '';
        my $state = { text => \$text, number => {}, next => 0 };
        # A root that is no scalar is described as the reference that thaw gives.
        my $is_scalar = reftype($root) =~ /^(?:SCALAR|REF|VSTRING|LVALUE)$/ && !defined blessed $root;
        cell( $state, $is_scalar ? $root : \$root );
        return { text => $text };
    }
    return {
        image  => encode_base64( Storable::nfreeze($root), '' ),
        native => encode_base64( Storable::freeze($root), '' ),
    };
}

sub overload_class {
    my ($class) = @_;
    return if overload::Method( $class, '""' );
    $class->overload::OVERLOAD( '""' => sub { 'overloaded' }, fallback => 1 );
    return;
}

#-- describe -----------------------------------------------------------------

sub say_ { my $state = shift; ${ $state->{text} } .= join '', @_; return }

# Number a cell or referent; true if it was met before.
sub met {
    my ( $state, $to ) = @_;
    my $address = refaddr $to;
    if ( defined( my $number = $state->{number}{$address} ) ) {
        say_( $state, "^$number" );
        return 1;
    }
    $state->{number}{$address} = $state->{next}++;
    return 0;
}

sub magic_of {
    my ( $cell, $type ) = @_;
    my $b = B::svref_2object($cell);
    return unless $b->can('MAGIC') and $b->FLAGS & ( B::SVs_GMG | B::SVs_SMG | B::SVs_RMG );
    for ( my $magic = $b->MAGIC ; $magic ; $magic = $magic->MOREMAGIC ) {
        return $magic if $magic->TYPE eq $type;
    }
    return;
}

sub cell {
    my ( $state, $cell ) = @_;
    # Immortals have one address for all places.
    return say_( $state, defined $$cell ? string($$cell) : 'undef' )
        if B::svref_2object($cell)->isa('B::SPECIAL');
    return if met( $state, $cell );
    if ( my $element = magic_of( $cell, 'p' ) ) {
        my $key = $element->LENGTH == B::HEf_SVKEY ? ${ $element->PTR->object_2svref } : $element->LENGTH;
        say_( $state, 'tied element ', string($key), ' of ' );
        return cell( $state, $element->OBJ->object_2svref );
    }
    if ( my $object = magic_of( $cell, 'q' ) ) {
        say_( $state, 'tied scalar ' );
        return cell( $state, $object->OBJ->object_2svref );
    }
    if ( length ref $$cell ) {    # a class may be named 0
        say_( $state, 'weak ' ) if isweak $$cell;
        return referent( $state, $$cell );
    }
    return say_( $state, 'undef' ) unless defined $$cell;
    return say_( $state, 'vstring ', sprintf( '%vd', $$cell ), ' ', string("$$cell") ) if isvstring $$cell;
    return say_( $state, string("$$cell") );
}

# A string by its characters, whatever flag it has.
sub string {
    my ($string) = @_;
    my $well_formed = utf8::is_utf8($string) ? utf8::decode( my $copy = raw($string) ) : 1;
    return "'malformed " . unpack( 'H*', raw($string) ) . "'" unless $well_formed;
    return "'" . join( '', map { $_ > 126 || $_ < 32 || $_ == 39 ? sprintf( '\\x{%x}', $_ ) : chr } unpack 'W*', $string ) . "'";
}

# The octets of a flagged string.
sub raw {
    my ($string) = @_;
    Encode::_utf8_off($string);
    return $string;
}

sub referent {
    my ( $state, $to ) = @_;
    my $class = blessed $to;
    my $type  = reftype $to;
    say_( $state, 'object ', string($class), ' ' ) if defined $class;
    return ( say_( $state, 'ref ' ), cell( $state, $to ) ) if $type =~ /^(?:SCALAR|REF|VSTRING|LVALUE)$/;
    return if met( $state, $to );
    if ( $type eq 'ARRAY' ) {
        return ( say_( $state, 'tied array ' ), cell( $state, \( my $object = tied @$to ) ) ) if tied @$to;
        say_( $state, '[' );
        for my $index ( 0 .. $#$to ) {
            exists $to->[$index] ? cell( $state, \$to->[$index] ) : say_( $state, 'missing' );
            say_( $state, ',' );
        }
        return say_( $state, ']' );
    }
    if ( $type eq 'HASH' ) {
        return ( say_( $state, 'tied hash ' ), cell( $state, \( my $object = tied %$to ) ) ) if tied %$to;
        my $locked = Internals::SvREADONLY(%$to);
        my %cell;
        @cell{ keys %$to } = map { \$_ } values %$to;
        say_( $state, $locked ? 'locked {' : '{' );
        for my $key ( sort keys %$to ) {
            say_( $state, $locked && Internals::SvREADONLY( $to->{$key} ) ? 'readonly ' : '', string($key), '=>' );
            cell( $state, $cell{$key} );
            say_( $state, ',' );
        }
        say_( $state, 'allowed ', string($_), ',' ) for $locked ? sort( Hash::Util::hidden_keys(%$to) ) : ();
        return say_( $state, '}' );
    }
    if ( $type eq 'REGEXP' ) {
        my ( $pattern, $flags ) = re::regexp_pattern($to);
        return say_( $state, 'regexp ', string($pattern), " $flags" );
    }
    return say_( $state, 'code ', string( $source{ refaddr $to } // 'unknown' ) ) if $type eq 'CODE';
    return say_( $state, $type );
}
