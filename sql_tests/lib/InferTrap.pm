# A server that writes down what it is sent, and gives everybody the same answer. For what must not
# arrive: a trap that nobody stepped into has no connections.
#
#   my $trap = InferTrap->new;                            # answers with the completion "trapped"
#   my $trap = InferTrap->new(answer => "HTTP/1.1 307 There\r\nLocation: ...\r\n\r\n");
#   my $trap = InferTrap->new(answer => sub { my ($head, $body) = @_; ... });   # to each request
#   $trap->connections;                                   # so many have connected
#   $trap->seen;                                          # all bytes they sent
package InferTrap;

use strict;
use warnings;
use File::Temp;
use IO::Socket::IP;
use POSIX ();

my $body = '{"choices":[{"text":"trapped","message":{"content":"trapped"}}]}';
my $completion = "HTTP/1.1 200 OK\r\nContent-Length: " . length($body) . "\r\n\r\n$body";

sub note
{
	my ($self, $which, $bytes) = @_;
	open(my $out, '>>', "$self->{folder}/$which") or die $!;
	syswrite($out, $bytes);
	close $out;
	return;
}

# Whole requests with a Content-Length; whatever else comes is written down as it is.
sub serve
{
	my ($self, $connection) = @_;
	my $buffer = '';
	while (sysread($connection, my $bytes, 65536))
	{
		$self->note('seen', $bytes);
		$buffer .= $bytes;
		while ($buffer =~ /^(.*?\r\n\r\n)(.*)$/s)
		{
			my ($head, $rest) = ($1, $2);
			my $length = $head =~ /^content-length: *(\d+)/im ? $1 : 0;
			last if length $rest < $length;
			$buffer = substr($rest, $length);
			my $answer = $self->{answer};
			$answer = $answer->($head, substr($rest, 0, $length)) if ref $answer eq 'CODE';
			syswrite($connection, ref $answer ? $answer->[0] : $answer) or return;
			return if ref $answer;
		}
	}
	return;
}

# Options: address (127.0.0.1), port (a free one), answer (bytes, bytes in a list: and then the end, or a function that makes
# one of these).
sub new
{
	my ($class, %options) = @_;
	my $listener = IO::Socket::IP->new(
		Listen => 128,
		LocalHost => $options{address} // '127.0.0.1',
		LocalPort => $options{port} // 0,
		ReuseAddr => 1) or die "cannot listen: $@";
	my $self = bless {
		folder => File::Temp->newdir,
		port => $listener->sockport,
		answer => $options{answer} // $completion }, $class;
	my $pid = fork // die "fork: $!";
	if ($pid == 0)
	{
		setpgrp;
		$SIG{CHLD} = 'IGNORE';
		$SIG{PIPE} = 'IGNORE';
		$SIG{TERM} = 'DEFAULT';
		while (1)
		{
			my $connection = $listener->accept or next;
			$self->note('connections', '.');
			my $child = fork;
			if (defined $child && $child == 0)
			{
				close $listener;
				eval { $self->serve($connection) };
				POSIX::_exit(0);
			}
			close $connection;
		}
	}
	setpgrp $pid, 0;
	$self->{pid} = $pid;
	return $self;
}

sub port { return $_[0]->{port}; }

sub slurp
{
	my ($self, $which) = @_;
	open(my $in, '<', "$self->{folder}/$which") or return '';
	local $/;
	return scalar(<$in>) // '';
}

sub seen { return $_[0]->slurp('seen'); }
sub connections { return length $_[0]->slurp('connections'); }

sub forget
{
	my ($self) = @_;
	unlink "$self->{folder}/seen", "$self->{folder}/connections";
	return;
}

sub DESTROY
{
	my ($self) = @_;
	local ($?, $!, $@);
	return unless $self->{pid};
	kill 'TERM', -$self->{pid};
	waitpid $self->{pid}, 0;
	return;
}

1;
