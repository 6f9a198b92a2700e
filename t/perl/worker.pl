#!/usr/bin/perl

# A Perl worker of the mixed cluster:  worker.pl SERVER NAME QUEUE...
# It works until a job named "stop" comes, and prints the id of each job done.

use strict;
use warnings;

use List::Util qw(sum0);
use Redis::JobQueue;
use Redis::JobQueue::Job qw(STATUS_COMPLETED STATUS_WORKING);

my ( $server, $name, @queues ) = @ARGV;
my $jq = Redis::JobQueue->new(
    redis              => $server,
    timeout            => 1,
    connection_timeout => 20,    # seconds; the defaults are too short for a busy machine
    operation_timeout  => 20,
);
$| = 1;
while (1) {
    my $job = $jq->get_next_job( queue => \@queues, blocking => 1 ) or next;
    if ( $job->job eq 'stop' ) {
        $jq->delete_job($job);
        last;
    }
    $job->status(STATUS_WORKING);
    $job->progress(0.5);
    $jq->update_job($job) == 4 or die $job->id . " was not updated\n";

    my $workload = $job->workload;
    my %words;
    $words{$_}++ for split ' ', $workload->{text};
    $job->result( { sum => sum0( @{ $workload->{numbers} } ), words => \%words } );
    $job->meta_data( worker => $name );
    $job->progress(1);
    $job->message("done by $name");
    $job->status(STATUS_COMPLETED);
    $jq->update_job($job) or die $job->id . " was not updated\n";
    print $job->id, "\n";
}
