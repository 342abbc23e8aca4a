# A client that asks for a number of rows at a time, as drivers with a fetch size do: Execute messages
# with a row limit, for one portal. Spoken here by hand, for libpq has no way to say it.
use strict;
use warnings;
use InferTest;
use IO::Socket::UNIX;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $mock = InferTest::Mock->new('reply=echo', 'dim=4');
my $node = InferTest::new_node('fetch_size', 'pg_inference.streaming_mode = per_row');
InferTest::connect_mock($node, $mock);
$node->safe_psql('postgres',
	q{CREATE TABLE docs AS SELECT i AS id, 'text ' || i AS body FROM generate_series(1, 100) i});

my $socket;

sub send_message
{
	my ($type, $body) = @_;
	$socket->syswrite($type . pack('N', 4 + length $body) . $body);
	return;
}

sub receive
{
	my ($bytes) = @_;
	my $data = '';
	while (length($data) < $bytes)
	{
		$socket->sysread($data, $bytes - length $data, length $data) or die 'connection lost';
	}
	return $data;
}

# Reads messages up to one of the given types, which is returned with the number of rows before it.
sub wait_for
{
	my ($types) = @_;
	my $rows = 0;
	while (1)
	{
		my ($type, $length) = unpack('a N', receive(5));
		my $body = receive($length - 4);
		die "error: $body" if $type eq 'E';
		$rows++ if $type eq 'D';
		return ($type, $rows) if index($types, $type) >= 0;
	}
}

# Runs a query, a number of rows at a time; 0 is all. The calls made after each step.
sub calls_of
{
	my ($query, @steps) = @_;
	my @calls;
	$mock->reset;
	send_message('P', "\0$query\0" . pack('n', 0));
	send_message('B', "\0\0" . pack('n n n', 0, 0, 0));
	for my $step (@steps)
	{
		send_message('E', "\0" . pack('N', $step));
		send_message('H', '');
		my ($type, $rows) = wait_for('sC');    # suspended, or complete
		is($rows, $step, "$step rows are $step rows") if $type eq 's';
		push @calls, $mock->stat('items');
	}
	send_message('S', '');
	wait_for('Z');
	return join(' ', @calls);
}

$socket = IO::Socket::UNIX->new(Peer => $node->host . '/.s.PGSQL.' . $node->port)
  or die "cannot connect: $!";
my $user = getpwuid($>);
my $startup = pack('N', 196608) . "user\0$user\0database\0postgres\0\0";
$socket->syswrite(pack('N', 4 + length $startup) . $startup);
wait_for('Z');

my $query = q{SELECT infer.complete('c', body) FROM docs};
is(calls_of($query, 5, 5), '5 10', 'no call more than rows were asked for');
is(calls_of($query, 20, 3, 0), '20 23 100', 'fewer, then the rest');
is(calls_of("$query ORDER BY id LIMIT 30", 20, 20), '20 30', 'never more than LIMIT');
is(calls_of($query, (10) x 4), '10 20 30 45', 'who goes on is read ahead for');
is(calls_of($query, 0), '100', 'all at once');

send_message('X', '');
$socket->close;
$node->stop;
done_testing();
