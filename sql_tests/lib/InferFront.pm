# A port that passes everything on to a server, until it is killed: then its connections are lost and
# new ones refused, and the server is there all the same, with what it knows.
#
#   my $front = InferFront->new($mock->url);
#   $front->url; $front->kill; $front->start;
package InferFront;

use strict;
use warnings;
use IO::Select;
use IO::Socket::INET;
use POSIX ();

sub new
{
	my ($class, $url) = @_;
	my ($to) = $url =~ m{//([^/]+)};
	my $self = bless { to => $to, port => 0 }, $class;
	$self->start;
	return $self;
}

sub url { return "http://127.0.0.1:$_[0]{port}"; }

# Listens again at the port that it had.
sub start
{
	my ($self) = @_;
	return if $self->{pid};
	my $listener = IO::Socket::INET->new(
		LocalAddr => '127.0.0.1', LocalPort => $self->{port}, Listen => 128, ReuseAddr => 1)
	  or die "cannot listen at $self->{port}: $!";
	$self->{port} = $listener->sockport;
	$self->{pid} = fork // die "fork: $!";
	if ($self->{pid} == 0)
	{
		open(STDOUT, '>', '/dev/null');
		pass($listener, $self->{to});
		POSIX::_exit(0);
	}
	return;
}

sub kill
{
	my ($self) = @_;
	return unless $self->{pid};
	kill 'KILL', $self->{pid};
	waitpid($self->{pid}, 0);
	$self->{pid} = 0;
	return;
}

sub pass
{
	my ($listener, $to) = @_;
	my $select = IO::Select->new($listener);
	my %other;
	while (my @ready = $select->can_read)
	{
		foreach my $socket (@ready)
		{
			if ($socket == $listener)
			{
				my $near = $listener->accept or next;
				my $far = IO::Socket::INET->new(PeerAddr => $to) or next;
				@other{ $near, $far } = ($far, $near);
				$select->add($near, $far);
				next;
			}
			my $peer = $other{$socket} or next;
			my $read = sysread($socket, my $bytes, 65536);
			if ($read && defined syswrite($peer, $bytes))
			{
				next;
			}
			delete @other{ $socket, $peer };
			$select->remove($socket, $peer);
			close $_ foreach $socket, $peer;
		}
	}
	return;
}

sub DESTROY
{
	my ($self) = @_;
	local ($?, $!, $@);
	$self->kill;
	return;
}

1;
