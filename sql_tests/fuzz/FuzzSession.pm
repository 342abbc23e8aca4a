# A session with a PostgreSQL server, and the mock inference server's ledger.
#
# We speak the protocol ourselves (version 3, Unix socket, trust): that needs nothing but Perl, gives
# SQLSTATEs, and a connection that breaks is seen at the statement that broke it.
package FuzzSession;

use strict;
use warnings;
use IO::Socket::UNIX;
use Socket qw(SOCK_STREAM);

sub new
{
	my ($class, $folder, $database) = @_;
	my $self = bless { path => "$folder/.s.PGSQL.5432", database => $database }, $class;
	return $self->connect;
}

# Waits for a server that is recovering from a crash.
sub connect
{
	my ($self) = @_;
	for my $try (1 .. 600)
	{
		$self->{socket} = IO::Socket::UNIX->new(Type => SOCK_STREAM, Peer => $self->{path});
		if ($self->{socket})
		{
			my $startup = pack('N', 196608) . "user\0postgres\0database\0$self->{database}\0\0";
			$self->{socket}->syswrite(pack('N', 4 + length $startup) . $startup);
			$self->{buffer} = '';
			my $answer = eval { $self->answer };
			return $self if $answer && !$answer->{error};
		}
		select(undef, undef, undef, 0.1);
	}
	die "cannot connect to $self->{path}\n";
}

sub message
{
	my ($self) = @_;
	my $buffer = \$self->{buffer};
	while (length $$buffer < 5 || length $$buffer < 1 + unpack('xN', $$buffer))
	{
		my $got = $self->{socket}->sysread($$buffer, 1 << 16, length $$buffer);
		die "connection lost\n" unless $got;
	}
	my $size = unpack('xN', $$buffer);
	my $message = substr($$buffer, 0, 1 + $size, '');
	return (substr($message, 0, 1), substr($message, 5));
}

# Everything until the server is ready again: rows as arrays of text, the first error's SQLSTATE and words.
sub answer
{
	my ($self) = @_;
	my %answer = (rows => [], error => '');
	while (1)
	{
		my ($type, $body) = $self->message;
		if ($type eq 'D')
		{
			my $count = unpack('n', $body);
			my $at = 2;
			my @row;
			for (1 .. $count)
			{
				my $length = unpack('l>', substr($body, $at, 4));
				$at += 4;
				push @row, $length < 0 ? undef : substr($body, $at, $length);
				$at += $length if $length > 0;
			}
			push @{ $answer{rows} }, \@row;
		}
		elsif ($type eq 'E')
		{
			my %field = map { substr($_, 0, 1) => substr($_, 1) } grep { length } split /\0/, $body;
			$answer{error} ||= $field{C};
			$answer{words} ||= $field{M};
			die "connection lost: $field{M}\n" if $field{S} =~ /FATAL|PANIC/ && $field{C} ne '3D000';
		}
		elsif ($type eq 'Z')
		{
			return \%answer;
		}
	}
}

sub query
{
	my ($self, $sql) = @_;
	local $SIG{PIPE} = 'IGNORE';
	$self->{socket}->syswrite('Q' . pack('N', 5 + length $sql) . "$sql\0");
	return $self->answer;
}

# By the extended protocol: a portal that is read so many rows at a time.
sub portal
{
	my ($self, $sql, $rows, $times) = @_;
	local $SIG{PIPE} = 'IGNORE';
	my $part = sub { $_[0] . pack('N', 4 + length $_[1]) . $_[1] };
	my $execute = $part->('E', "\0" . pack('N', $rows));
	$self->{socket}->syswrite(
		$part->('P', "\0$sql\0" . pack('n', 0)) . $part->('B', "\0\0" . pack('nnn', 0, 0, 0))
		  . $execute x $times . $part->('S', ''));
	return $self->answer;
}

# The only value of the only row.
sub value
{
	my ($self, $sql) = @_;
	my $answer = $self->query($sql);
	die "$sql: $answer->{error} $answer->{words}\n" if $answer->{error};
	return $answer->{rows}[0][0];
}

package FuzzMock;

use strict;
use warnings;
use IO::Socket::INET;

sub new
{
	my ($class, $binary, @settings) = @_;
	my $pid = open(my $out, '-|', $binary, '-p', '0', @settings) or die "cannot start $binary: $!\n";
	my $line = <$out>;
	die "the mock server did not start\n" unless defined $line && $line =~ m{listening on http://(\S+:\d+)};
	return bless { address => $1, pid => $pid, out => $out }, $class;
}

sub url { return "http://$_[0]->{address}"; }

sub request
{
	my ($self, $method, $path) = @_;
	$self->{socket} ||= IO::Socket::INET->new($self->{address}) or die "the mock server is gone\n";
	$self->{socket}->syswrite("$method $path HTTP/1.1\r\nHost: $self->{address}\r\nContent-Length: 0\r\n\r\n");
	my $got = '';
	until ($got =~ /\A.*?\r\n\r\n/s && length $got >= $+[0] + ($got =~ /content-length: *(\d+)/i)[0])
	{
		$self->{socket}->sysread($got, 1 << 16, length $got) or die "the mock server is gone\n";
	}
	return $got =~ s/\A.*?\r\n\r\n//sr;
}

sub forget { $_[0]->request('POST', '/reset'); return; }

# The texts executed since then, with how often; texts that begin alike for long are one.
sub ledger
{
	my ($self) = @_;
	my $stats = $self->request('GET', '/stats');
	my %ledger = (total => ($stats =~ /"items":(\d+)/)[0], texts => {});
	$ledger{texts} = $self->texts if $ledger{total};
	return \%ledger;
}

sub texts
{
	my ($self) = @_;
	my $json = $self->request('GET', '/stats/items?min=1');
	my %texts;
	$texts{$2} += $1 while $json =~ /"executed":(\d+),"seen":\d+,"text":"((?:[^"\\]|\\.)*)"/g;
	return \%texts;
}

sub stop
{
	my ($self) = @_;
	kill 'TERM', $self->{pid} if $self->{pid};
	$self->{pid} = 0;
	return;
}

# Closing the pipe waits for the process, so that it must have been told to end.
sub DESTROY { my ($self) = @_; local ($?, $!, $@); $self->stop; return; }

1;
