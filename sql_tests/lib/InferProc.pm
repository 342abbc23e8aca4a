# Sessions that run beside the test, what their processes have open, and peers that never answer.
#
#   my $session = InferProc->start($node, 'name', "SELECT pg_sleep(60);\n");
#   my $pid = $session->backend;                  # waits until it is there
#   InferProc::sockets($pid, $port);              # its connections to that port
#   my ($out, $err) = $session->finish;
package InferProc;

use strict;
use warnings;
use File::Basename qw(dirname);
use File::Spec;
use File::Temp;
use IO::Socket::INET;
use POSIX qw(WNOHANG);
use Time::HiRes qw(sleep time);

# A psql that runs the script on its own. Errors do not stop it; they show with their SQLSTATE.
# Script and output are files, so that it never waits for the test to take or give something.
sub start
{
	my ($class, $node, $name, $sql, %options) = @_;
	my $self = bless { node => $node, name => $name, folder => File::Temp->newdir }, $class;
	my $script = "$self->{folder}/script";
	open(my $out, '>', $script) or die "$script: $!";
	print $out $sql;
	close $out or die "$script: $!";
	my $database = $options{database} // 'postgres';
	my @command = (
		'psql', '-XAtq', '-v', 'VERBOSITY=verbose', '-d',
		$node->connstr($database) . " application_name='$name'", '-f', $script);
	my $pid = fork // die "fork: $!";
	if ($pid == 0)
	{
		open(STDIN, '<', '/dev/null');
		open(STDOUT, '>', "$self->{folder}/out");
		open(STDERR, '>', "$self->{folder}/err");
		exec { $command[0] } @command or POSIX::_exit(127);
	}
	$self->{client} = $pid;
	return $self;
}

sub slurp
{
	my ($self, $which) = @_;
	open(my $in, '<', "$self->{folder}/$which") or return '';
	local $/;
	return scalar(<$in>) // '';
}

# The process number of its backend, once that is there.
sub backend
{
	my ($self) = @_;
	my $until = time + 60;
	while (!$self->{backend})
	{
		$self->{backend} = $self->{node}->safe_psql('postgres',
			"SELECT pid FROM pg_stat_activity WHERE application_name = '$self->{name}'");
		last if $self->{backend};
		die "session $self->{name} is not there: " . $self->slurp('err') if time > $until;
		sleep 0.01;
	}
	return $self->{backend};
}

# Waits for its end; returns what it printed.
sub finish
{
	my ($self, $seconds) = @_;
	my $until = time + ($seconds // 180);
	while ($self->{client} && waitpid($self->{client}, WNOHANG) == 0)
	{
		if (time > $until)
		{
			$self->kill_client;
			die "session $self->{name} does not end: " . $self->slurp('err');
		}
		sleep 0.002;
	}
	$self->{client} = 0;
	return ($self->slurp('out'), $self->slurp('err'));
}

# Ends the client (not its backend) without a word.
sub kill_client
{
	my ($self) = @_;
	return unless $self->{client};
	kill 'KILL', $self->{client};
	waitpid($self->{client}, 0);
	$self->{client} = 0;
	return;
}

sub DESTROY
{
	my ($self) = @_;
	local ($?, $!, $@);
	$self->kill_client;
	return;
}

# Starts all, waits for all; returns [out, err] of each. The scripts run at the same time.
sub run_all
{
	my ($node, $name, @scripts) = @_;
	my $n = 0;
	my @sessions = map { InferProc->start($node, $name . ++$n, $_) } @scripts;
	return map { [ $_->finish ] } @sessions;
}

my @states = qw(- ESTABLISHED SYN_SENT SYN_RECV FIN_WAIT1 FIN_WAIT2 TIME_WAIT CLOSE CLOSE_WAIT
  LAST_ACK LISTEN CLOSING);

# IPv4 connections of a process to a port: { state, unsent } (bytes that the peer did not take yet).
sub sockets
{
	my ($pid, $port) = @_;
	my (%inode, @found);
	opendir(my $dir, "/proc/$pid/fd") or return;
	foreach my $fd (readdir $dir)
	{
		my $target = readlink("/proc/$pid/fd/$fd") // '';
		$inode{$1} = 1 if $target =~ /^socket:\[(\d+)\]/;
	}
	open(my $tcp, '<', "/proc/$pid/net/tcp") or return;
	while (<$tcp>)
	{
		my @field = split;
		next unless @field > 9 && $inode{ $field[9] };
		my ($remote) = $field[2] =~ /:([0-9A-F]{4})$/ or next;
		next unless hex($remote) == $port;
		my ($unsent) = $field[4] =~ /^([0-9A-F]+):/;
		push @found, { state => $states[ hex $field[3] ] // $field[3], unsent => hex $unsent };
	}
	return @found;
}

# A figure of /proc/PID/status in kB, such as VmRSS.
sub memory_kb
{
	my ($pid, $figure) = @_;
	open(my $status, '<', "/proc/$pid/status") or return;
	while (<$status>)
	{
		return $1 if /^$figure:\s+(\d+) kB/;
	}
	return;
}

# Builds the library that slow_dns.c describes; returns its path for LD_PRELOAD.
sub build_slow_dns { return build_preload($_[0], 'slow_dns'); }

# The same for another of these files.
sub build_preload
{
	my ($folder, $name) = @_;
	my $source = File::Spec->rel2abs(dirname(__FILE__) . "/$name.c");
	my $library = "$folder/$name.so";
	system($ENV{CC} // 'cc', '-O1', '-shared', '-fPIC', '-o', $library, $source, '-ldl') == 0
	  or die "cannot build $source";
	return $library;
}

# The library that bad_abort.c describes, for the server to load; returns its path.  Built by cc: the
# compiler that pg_config names is that of a package, and need not be here.
sub build_bad_abort
{
	my ($folder) = @_;
	my $source = File::Spec->rel2abs(dirname(__FILE__) . '/bad_abort.c');
	my $library = "$folder/bad_abort.so";
	chomp(my $headers = `@{[ $ENV{PG_CONFIG} // 'pg_config' ]} --includedir-server`);
	system($ENV{CC} // 'cc', '-O1', '-shared', '-fPIC', "-I$headers", '-o', $library, $source) == 0
	  or die "cannot build $source";
	return $library;
}

# A port that listens but never completes a connection: its line of the not yet accepted is full.
# Returns the sockets, to be kept, and the port.
sub full_listener
{
	my $listener = IO::Socket::INET->new(
		Listen => 1, LocalAddr => '127.0.0.1', Proto => 'tcp') or die "cannot listen: $!";
	listen($listener, 0) or die "cannot shorten the line: $!";
	my @fillers;
	for (1 .. 8)
	{
		push @fillers,
		  IO::Socket::INET->new(
			PeerAddr => '127.0.0.1', PeerPort => $listener->sockport, Proto => 'tcp',
			Blocking => 0);
	}
	return ([ $listener, @fillers ], $listener->sockport);
}

1;
