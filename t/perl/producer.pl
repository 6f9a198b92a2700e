#!/usr/bin/perl

# A Perl producer of the mixed cluster:  producer.pl SERVER NAME COUNT QUEUE...
# It adds COUNT jobs to the queues in turn and prints their ids.

use strict;
use warnings;

use Redis::JobQueue;

my ( $server, $name, $count, @queues ) = @ARGV;
my $jq = Redis::JobQueue->new(
    redis              => $server,
    connection_timeout => 20,    # seconds; the defaults are too short for a busy machine
    operation_timeout  => 20,
);
$| = 1;
for my $number ( 1 .. $count ) {
    my $job = $jq->add_job( {
        queue     => $queues[ $number % @queues ],
        job       => 'count',
        expire    => $number % 3 ? 3600 : 0,
        workload  => { text => "$name sends " . "caf\xe9 " x $number, numbers => [ 1 .. $number ] },
        meta_data => { producer => $name },
    } );
    print $job->id, "\n";
}
