# How long the machine kept everybody waiting: what a test measures is nobody's fault as far as that goes.
#
#   my $pulse = InferPulse->new;
#   my $start = time; ...; my $took = $pulse->since($start);     # without what the machine took
#   $pulse->lost($from, $to);                                    # what it took between the two
#
# A process that wants to run every five milliseconds notes when it could not.
package InferPulse;

use strict;
use warnings;
use File::Temp;
use POSIX ();
use Time::HiRes qw(sleep time);

my $beat = 0.005;
my $record = 16; # bytes: two times

sub new
{
	my ($class) = @_;
	my $self = bless { file => File::Temp->new, parent => $$ }, $class;
	my $name = $self->{file}->filename;
	$self->{pid} = fork // die "fork: $!";
	if ($self->{pid} == 0)
	{
		open(my $out, '+<', $name) or POSIX::_exit(1);
		note_gaps($out, $self->{parent});
		POSIX::_exit(0);
	}
	$self->lost(time, time); # it beats
	return $self;
}

# The first record is the last beat; each further one is a gap.
sub note_gaps
{
	my ($out, $parent) = @_;
	my ($end, $last) = ($record, time);
	while (getppid == $parent)
	{
		sleep $beat;
		my $now = time;
		if ($now - $last > 3 * $beat)
		{
			sysseek($out, $end, 0);
			$end += syswrite($out, pack('dd', $last + $beat, $now));
		}
		sysseek($out, 0, 0);
		syswrite($out, pack('dd', $now, 0));
		$last = $now;
	}
	return;
}

# Seconds between the two that nobody could use.
sub lost
{
	my ($self, $from, $to) = @_;
	my $sum = 0;
	my ($last, @gaps);
	open(my $in, '<:raw', $self->{file}->filename) or die "$!";
	until (defined $last && $last >= $to)
	{
		sleep $beat if defined $last;
		seek($in, 0, 0);
		local $/;
		my @times = unpack('d*', scalar(<$in>) // '');
		($last, undef, @gaps) = (@times, 0, 0);
	}
	while (my ($begin, $end) = splice(@gaps, 0, 2))
	{
		($begin, $end) = ($begin < $from ? $from : $begin, $end > $to ? $to : $end);
		$sum += $end - $begin if $end > $begin;
	}
	return $sum;
}

sub since
{
	my ($self, $start) = @_;
	my $now = time;
	return $now - $start - $self->lost($start, $now);
}

sub DESTROY
{
	my ($self) = @_;
	local ($?, $!, $@);
	return unless $self->{pid} && $$ == $self->{parent};
	kill 'KILL', $self->{pid};
	waitpid($self->{pid}, 0);
	return;
}

1;
