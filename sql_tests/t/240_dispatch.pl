# The dispatch queue: who has to wait goes by priority and arrival, and whoever leaves strands nobody.
use strict;
use warnings;
use InferTest;
use InferProc;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $mock = InferTest::Mock->new('reply=echo');
my $node = InferTest::new_node('dispatch', 'statement_timeout = 60s', 'max_connections = 60');
InferTest::connect_mock($node, $mock, node => 'a', admission_key => 'ka');
# on the same node under another key; with one permit; on another node
my $url = $mock->url . '/v1';
$node->safe_psql(
	'postgres', qq{
	CREATE SERVER beside FOREIGN DATA WRAPPER pg_inference OPTIONS (url '$url', node 'a', admission_key 'kb');
	CREATE SERVER narrow FOREIGN DATA WRAPPER pg_inference OPTIONS (url '$url', node 'a', admission_key 'kc', max_concurrency '1');
	CREATE SERVER other FOREIGN DATA WRAPPER pg_inference OPTIONS (url '$url', node 'b', admission_key 'kd');
	CREATE SERVER alone FOREIGN DATA WRAPPER pg_inference OPTIONS (url '$url', admission_key 'ke')});

sub ask { return $node->safe_psql('postgres', $_[0]); }

my (%session, $sent);

# A call in a session of its own that never gets its answer.
sub begin
{
	my ($name, $duration, %with) = @_;
	my $server = $with{server} // 'mock';
	my $priority = $with{priority} // 'NORMAL';
	$session{$name} = InferProc->start($node, $name,
		"SELECT infer.complete('$server/m', '$name [[mock:hang]]', '{}', '{\"duration\": \"$duration\", \"priority\": \"$priority\", \"timeout\": \"5min\"}');\n");
	$session{$name}->backend;
	return;
}

# Sessions that the mock has heard of, in order of their arrival there.
sub left
{
	my $ledger = $mock->ledger;
	return join(' ', map { (split / /)[0] }
		sort { $ledger->{$a}{first_seen} <=> $ledger->{$b}{first_seen} || $a cmp $b } keys %$ledger);
}

sub queue
{
	return ask(q{SELECT coalesce(string_agg(a.application_name || ' ' || coalesce('key ' || key, 'node ' || node), ', '
		ORDER BY q.node, q.key, q.position), 'nobody') FROM infer.stat_queue AS q JOIN pg_stat_activity AS a USING (pid)});
}

sub is_left
{
	my ($wanted, $name) = @_;
	InferTest::wait_until(60, sub { left() eq $wanted });
	is(left(), $wanted, $name);
	return;
}

sub is_queue
{
	my ($wanted, $name) = @_;
	InferTest::wait_until(60, sub { queue() eq $wanted });
	is(queue(), $wanted, $name);
	return;
}

# Ends a session's call, wherever it is.
sub end
{
	my ($name, $how) = @_;
	my $pid = $session{$name}->backend;
	ask(($how // 'SELECT pg_cancel_backend') . "($pid)");
	$session{$name}->finish;
	delete $session{$name};
	return;
}

sub end_all
{
	end($_) foreach sort keys %session;
	is(queue(), 'nobody', 'nobody waits any more');
	$mock->reset;
	return;
}

# gw_6_1: a server's line, by priority, then as they came; gw_6_5: whoever leaves strands nobody
begin('busy', 'MEDIUM', server => 'narrow');
is_left('busy', 'the only permit is out');
is(queue(), 'nobody', 'nobody waits');
begin('normal1', 'MEDIUM', server => 'narrow');
is_queue('normal1 key kc', 'one waits');
is( ask(q{SELECT datname, usename = current_user, key, node, position, priority, duration, wanted, since < clock_timestamp(), deadline FROM infer.stat_queue}),
	'postgres|t|kc||1|NORMAL|MEDIUM|1|t|', '... as infer.stat_queue says');
begin('low', 'SHORT', server => 'narrow', priority => 'LOW');
is_queue('normal1 key kc, low key kc', 'two wait');
begin('normal2', 'MEDIUM', server => 'narrow');
is_queue('normal1 key kc, normal2 key kc, low key kc', 'gw_6_1: equal ones in the order of their arrival');
begin('high', 'MEDIUM', server => 'narrow', priority => 'HIGH');
is_queue('high key kc, normal1 key kc, normal2 key kc, low key kc', 'gw_6_1: a higher priority before them');
end('normal1');
is_queue('high key kc, normal2 key kc, low key kc', 'gw_6_5: one is cancelled');
end('busy');
is_left('busy high', 'gw_6_1: HIGH goes first');
end('normal2', 'SELECT pg_terminate_backend');
is_queue('low key kc', 'gw_6_5: one is terminated');
end('high', 'SELECT pg_terminate_backend');
is_left('busy high low', '... and strands nobody');
# of others only what one may see
ask('CREATE ROLE stranger');
begin('again', 'MEDIUM', server => 'narrow');
is_queue('again key kc', 'one waits');
is(ask('SET ROLE stranger; SELECT count(*) FROM infer.stat_queue'), 0, 'a stranger does not see it');
end_all();

done_testing();
