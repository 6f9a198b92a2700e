package Tagged;

# Perl data to and from the tagged form in which the tests speak about values.
#
#   undef, int, num, octets, text, bool   a scalar and what kind it is
#   array, hash, ref, blessed             a reference and what it leads to
#   shared, backref                       reached again: a referent, or a cell
#                                         (the scalar slot itself)
#   weak, regexp, vstring                 as named
#   code                                  only seen, never built
#
# Numbers travel as text, so that JSON cannot round them.

use strict;
use warnings;
use feature 'refaliasing';
no warnings qw(experimental::refaliasing recursion);

use B ();
use Encode ();
use Exporter 'import';
use Hash::Util qw(hidden_keys);
use JSON::PP ();
use MIME::Base64 qw(decode_base64 encode_base64);
use Scalar::Util qw(blessed isvstring isweak refaddr reftype weaken);
use Storable qw(thaw);

our @EXPORT_OK = qw(to_tagged from_tagged);

# The tagged form of the values in a list of cells (references to scalars),
# one table of shared parts for all.
sub to_tagged {
    my @cells = @_;
    my $met = {};
    _meet( $met, $_ ) for @cells;
    my $state = { met => $met, id => {}, next => 1 };
    return map { _tag( $state, $_ ) } @cells;
}

# References to new scalars that hold what a list of tagged forms describes.
# "handle" forms are looked up in the first argument.
sub from_tagged {
    my ( $handles, @forms ) = @_;
    my $state = { handles => $handles, shared => {} };
    return map { _cell( $state, $_ ) } @forms;
}

#-- Perl to tagged -----------------------------------------------------------

# The true, false and undef that Perl has once each.  Storable leads to them (tags 15,
# 16 and 14).  Once certain modules are loaded, \ copies them instead: then a boolean
# that stands in a list or hash is described as the string that the copy is.
my ( $true, $false, $undef ) = map { thaw("\x05\x0b$_") } "\x0f", "\x10", "\x0e";
my %immortal = map { ( refaddr $_ => 1 ) } $true, $false, $undef;

sub _immortal { return $immortal{ refaddr $_[0] } }

# Count how often each cell and each referent is reached.
sub _meet {
    my ( $met, $cell ) = @_;
    return if _immortal($cell) or $met->{ refaddr $cell }++;
    _meet_referent( $met, $$cell ) if ref $$cell;
    return;
}

sub _meet_referent {
    my ( $met, $to ) = @_;
    my $type = reftype $to;
    if ( $type eq 'ARRAY' ) {
        return if $met->{ refaddr $to }++;
        exists $to->[$_] and _meet( $met, \$to->[$_] ) for 0 .. $#$to;
    }
    elsif ( $type eq 'HASH' ) {
        return if $met->{ refaddr $to }++;
        _meet( $met, _value_cell( $to, $_ ) ) for keys %$to;
    }
    elsif ( $type =~ /^(?:SCALAR|REF|VSTRING|LVALUE)$/ ) {
        _meet( $met, $to );
    }
    else {
        $met->{ refaddr $to }++;
    }
    return;
}

# Perl gives no reference to the slot of a hash that holds the immortal undef.
sub _value_cell {
    my ( $hash, $key ) = @_;
    local $@;
    return eval { \$hash->{$key} } || $undef;
}

# The form of one cell; a cell reached more than once is shared itself.
sub _tag {
    my ( $state, $cell ) = @_;
    return _scalar($cell) if _immortal($cell);
    return _shared( $state, $cell, 'cell', sub { _content( $state, $cell ) } );
}

sub _shared {
    my ( $state, $to, $of, $form ) = @_;
    my $address = refaddr $to;
    return $form->() if ( $state->{met}{$address} // 0 ) < 2;    # 0: a copy, see above
    return { t => 'backref', id => $state->{id}{$address} } if $state->{id}{$address};
    my $id = $state->{id}{$address} = $state->{next}++;
    return { t => 'shared', id => $id, of => $of, v => $form->() };
}

sub _content {
    my ( $state, $cell ) = @_;
    return _scalar($cell) unless ref $$cell;
    my $form = _reference( $state, $$cell );
    return isweak($$cell) ? { t => 'weak', v => $form } : $form;
}

sub _reference {
    my ( $state, $to ) = @_;
    my $type = reftype $to;
    return _shared( $state, $to, 'referent', sub { _regexp($to) } ) if $type eq 'REGEXP';
    return _shared( $state, $to, 'referent', sub { { t => 'code' } } ) if $type eq 'CODE';
    my $class = blessed $to;
    # An object that is a scalar is shared as an object, any other scalar as a cell.
    if ( $type ne 'ARRAY' and $type ne 'HASH' ) {
        return { t => 'ref', v => _tag( $state, $to ) } unless defined $class;
        return _shared( $state, $to, 'referent',
            sub { _blessed( $to, { t => 'ref', v => _content( $state, $to ) } ) } );
    }
    return _shared( $state, $to, 'referent', sub {
        my $form = $type eq 'ARRAY' ? _array( $state, $to ) : _hash( $state, $to );
        return defined $class ? _blessed( $to, $form ) : $form;
    } );
}

sub _array {
    my ( $state, $to ) = @_;
    return { t => 'array', v => [
        map { exists $to->[$_] ? _tag( $state, \$to->[$_] ) : _missing() } 0 .. $#$to
    ] };
}

sub _missing { return { t => 'undef', exists => JSON::PP::false() } }

sub _hash {
    my ( $state, $to ) = @_;
    my @pairs = map { [ _string($_), _tag( $state, _value_cell( $to, $_ ) ) ] } sort keys %$to;
    return { t => 'hash', v => \@pairs } unless Internals::SvREADONLY(%$to);
    return {
        t            => 'hash',
        v            => \@pairs,
        restricted   => JSON::PP::true(),
        placeholders => [ map { _string($_) } sort( hidden_keys(%$to) ) ],
        readonly     => [ map { _string($_) } sort grep { Internals::SvREADONLY( $to->{$_} ) } keys %$to ],
    };
}

sub _blessed {
    my ( $to, $form ) = @_;
    my $class = blessed $to;
    my @overloaded = overload::Overloaded($to) ? ( overloaded => JSON::PP::true() ) : ();
    return { t => 'blessed', class => $class, v => $form, @overloaded };
}

sub _regexp {
    my ($to) = @_;
    my ( $pattern, $flags ) = re::regexp_pattern($to);
    return { t => 'regexp', class => blessed $to, pattern => _string($pattern), flags => $flags };
}

sub _scalar {
    my ($cell) = @_;
    return { t => 'undef' } unless defined $$cell;
    return { t => 'bool', v => $$cell ? JSON::PP::true() : JSON::PP::false() } if _immortal($cell);
    return { t => 'vstring', v => _string("$$cell"), literal => _string( sprintf 'v%vd', $$cell ) }
        if isvstring $$cell;
    my $flags = B::svref_2object($cell)->FLAGS;
    return _string($$cell) if $flags & B::SVf_POK;
    return { t => 'int', v => "$$cell" } if $flags & B::SVf_IOK;
    return { t => 'num', v => _shortest($$cell) } if $flags & B::SVf_NOK;
    return _string("$$cell");
}

sub _string {
    my ($string) = @_;
    return { t => 'octets', b64 => encode_base64( $string, '' ) } unless utf8::is_utf8($string);
    return { t => 'text', v => $string }
        if utf8::valid($string) and $string !~ /[\x{d800}-\x{dfff}]|[^\x00-\x{10ffff}]/;
    my @malformed = utf8::valid($string) ? () : ( malformed => JSON::PP::true() );
    Encode::_utf8_off($string);
    return { t => 'text', b64 => encode_base64( $string, '' ), @malformed };
}

sub _shortest {
    my ($number) = @_;
    return 'nan' if $number != $number;
    return $number > 0 ? 'inf' : '-inf' if abs $number == 9**9**9;
    return '-0' if $number == 0 and unpack( 'H2', pack 'd>', $number ) eq '80';
    for my $digits ( 1 .. 17 ) {
        my $text = sprintf "%.${digits}g", $number;
        return "$text" if $text == $number;
    }
    die "no text for $number";
}

#-- tagged to Perl -----------------------------------------------------------

sub _cell {
    my ( $state, $form ) = @_;
    my $kind = $form->{t};
    if ( $kind eq 'backref' ) {
        my $known = $state->{shared}{ $form->{id} } or die "no shared part $form->{id} before\n";
        return $known->{cell} if $known->{cell};
        my $copy = $known->{referent};
        return \$copy;
    }
    return $form->{v} ? $true : $false if $kind eq 'bool';
    if ( $kind eq 'weak' ) {
        my $weak = _cell( $state, $form->{v} );
        weaken $$weak;
        return $weak;
    }
    my $cell = \my $new;
    if ( $kind eq 'shared' ) {
        my $slot = $state->{shared}{ $form->{id} } = {};
        $slot->{cell} = $cell if $form->{of} eq 'cell';
        $slot = {} if $form->{of} eq 'cell';
        _fill( $state, $form->{v}, $cell, $slot );
    }
    else {
        _fill( $state, $form, $cell, {} );
    }
    return $cell;
}

# Put a value into a cell; a referent is noted in $slot before its content is
# built, because the content may lead back to it.
sub _fill {
    my ( $state, $form, $cell, $slot ) = @_;
    my $kind = $form->{t};
    if ( $kind eq 'array' ) {
        my $to = $slot->{referent} = $$cell = [];
        my @forms = @{ $form->{v} };
        $#$to = $#forms;
        for my $i ( 0 .. $#forms ) {
            next if exists $forms[$i]{exists} and not $forms[$i]{exists};
            \$to->[$i] = _cell( $state, $forms[$i] );
        }
    }
    elsif ( $kind eq 'hash' ) {
        my $to = $slot->{referent} = $$cell = {};
        for my $pair ( @{ $form->{v} } ) {
            my $key = _string_of( $pair->[0] );
            \$to->{$key} = _cell( $state, $pair->[1] );
        }
    }
    elsif ( $kind eq 'ref' ) {
        $slot->{referent} = $$cell = _cell( $state, $form->{v} );
    }
    elsif ( $kind eq 'blessed' ) {
        _fill_blessed( $state, $form, $cell, $slot );
    }
    elsif ( $kind eq 'handle' ) {
        $$cell = $state->{handles}[ $form->{v} ] // die "no object with handle $form->{v}\n";
    }
    else {
        $$cell = _plain($form);
    }
    return;
}

# An object is blessed before it is filled: what leads back finds an object.
sub _fill_blessed {
    my ( $state, $form, $cell, $slot ) = @_;
    my ( $class, $inner ) = @$form{qw(class v)};
    if ( $inner->{t} eq 'ref' ) {
        my $to = $slot->{referent} = $$cell = bless( \my $target, $class );
        my $content = _cell( $state, $inner->{v} );
        $$to = $$content;
        return;
    }
    my $filled = \my $unblessed;
    $$cell = $slot->{referent} = bless( $inner->{t} eq 'array' ? [] : {}, $class );
    _fill( $state, $inner, $filled, {} );
    if   ( $inner->{t} eq 'array' ) { \$$cell->[$_] = \$$filled->[$_] for 0 .. $#$$filled }
    else                            { \$$cell->{$_} = \$$filled->{$_} for keys %$$filled }
    return;
}

sub _plain {
    my ($form) = @_;
    my $kind = $form->{t};
    return undef if $kind eq 'undef';
    return _string_of($form) if $kind eq 'octets' or $kind eq 'text';
    return _integer( $form->{v} ) if $kind eq 'int';
    return _number( $form->{v} ) if $kind eq 'num';
    return _compiled($form) if $kind eq 'regexp';
    return eval _string_of( $form->{literal} ) if $kind eq 'vstring';
    die "cannot build a value of kind $kind\n";
}

sub _compiled {
    my ($form) = @_;
    my $pattern = _string_of( $form->{pattern} );
    my $regexp = eval "qr/\$pattern/$form->{flags}" or die $@;
    return bless $regexp, $form->{class};
}

sub _string_of {
    my ($form) = @_;
    my $string = defined $form->{b64} ? decode_base64( $form->{b64} ) : $form->{v};
    return $string if $form->{t} eq 'octets';
    defined $form->{b64} ? Encode::_utf8_on($string) : utf8::upgrade($string);
    return $string;
}

sub _integer {
    my ($text) = @_;
    my $number = 0 + $text;
    die "$text is no integer of this Perl\n" unless "$number" eq $text;
    return $number;
}

sub _number {
    my ($text) = @_;
    return 9**9**9 if $text eq 'inf';
    return -9**9**9 if $text eq '-inf';
    return -sin 9**9**9 if $text eq 'nan';
    return unpack 'd>', pack 'H16', '8' . '0' x 15 if $text eq '-0';
    return unpack 'd', pack 'd', $text;
}

1;
