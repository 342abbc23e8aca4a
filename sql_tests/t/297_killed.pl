# Processes that are killed under load, with copies and weights out: everything comes back to nothing,
# and the instance goes on. And one that is a standby: what reads works there as it does elsewhere.
use strict;
use warnings;
use InferTest;
use InferProc;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my %mock = map { $_ => InferTest::Mock->new('base_ms=10', 'jitter=0.8', 'reply=echo') } qw(s1 s2 s3);
my $node = PostgreSQL::Test::Cluster->new('killed');
$node->init(allows_streaming => 1);
$node->append_conf('postgresql.conf', "shared_preload_libraries = 'pg_inference'
	restart_after_crash = on
	pg_inference.hedge_delay = 0
	pg_inference.probe_interval = '100ms'\n");
$node->start;

sub ask { my ($sql, $on) = @_; return ($on // $node)->safe_psql('postgres', $sql); }
sub is_soon
{
	my ($code, $what) = @_;
	return ok(InferTest::wait_until(60, $code), $what);
}
sub gateway
{
	my ($on) = @_;
	my (undef, $pid) = ($on // $node)->psql('postgres', q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'pg_inference gateway'});
	return $pid;
}

ask(join('', 'CREATE EXTENSION pg_inference;', map { "CREATE SERVER $_ FOREIGN DATA WRAPPER pg_inference
	OPTIONS (url '@{[ $mock{$_}->url ]}/v1', max_concurrency '4', node 'n');" } sort keys %mock));
ask(q{SELECT infer.create_model('all', 'complete', 's1', 'm'); SELECT infer.add_placement('all', s, 'm') FROM unnest(ARRAY['s2', 's3']) AS s});

# Statements without end: of one row and of many, short and long, with copies and without.
sub load
{
	my ($what) = @_;
	return map { InferProc->start($node, "$what $_", qq{
		SELECT count(infer.complete('all', '$what $_ ' || i, '{}', '{"hedge": true}')) FROM generate_series(1, 20) AS i;
		SELECT count(infer.complete('all', '$what $_ ' || -i, '{}', '{"duration": "LONG"}')) FROM generate_series(1, 20) AS i;
		DO \$\$ BEGIN FOR i IN 1 .. 10 LOOP PERFORM infer.complete('all', '$what $_ a' || i, '{}', '{"hedge": true}'); END LOOP; END \$\$;
		} x 2000) } 1 .. 6;
}
my $out = q{SELECT (SELECT coalesce(sum(in_flight) + sum(waiting), 0) FROM infer.stat_admission),
	(SELECT coalesce(sum(in_flight) + sum(outstanding) + sum(waiting), 0) FROM infer.stat_servers),
	(SELECT coalesce(sum(in_flight) + sum(duration_weight), 0) FROM infer.stat_nodes), (SELECT count(*) FROM infer.stat_queue)};

foreach my $case ([ 'a backend', 'TERM' ], [ 'a backend', 'KILL' ], [ 'the gateway', 'KILL' ])
{
	my ($whom, $signal) = @$case;
	my $what = "$signal to $whom";
	my @load = load($what);
	is_soon(sub { ask(q{SELECT sum(hedges_sent) > 3 FROM infer.stat_servers}) eq 't' && ask(q{SELECT sum(duration_weight) > 0 FROM infer.stat_nodes}) eq 't' },
		"$what: copies and weights are out");
	my $gateway = gateway();
	# one after the other, each in the midst of something
	foreach my $session ($whom eq 'the gateway' ? 0 : $signal eq 'TERM' ? @load[ 0 .. 3 ] : $load[0])
	{
		kill $signal, $session ? $session->backend : $gateway;
		sleep 0.02;
	}
	if ($signal eq 'TERM')
	{
		like(($_->finish)[1], qr/57P01/, "$what: is told") foreach @load[ 0 .. 3 ];
		is(gateway(), $gateway, "$what: nothing else ends");
		ask('SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name LIKE \'' . $what . '%\'') foreach 1 .. 20;
		$_->kill_client foreach @load;
		is_soon(sub { ask("SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE '$what%'") == 0 }, "$what: the others are sent away");
	}
	else
	{
		like(($_->finish)[1], qr/57P02|server closed the connection/, "$what: all sessions are told") foreach @load;
		is_soon(sub { my $now = gateway(); return $now && $now ne $gateway; }, "$what: the instance and its gateway come back");
	}
	is(ask($out), '0|0|0|0', "$what: nothing is left");
	is_soon(sub { !grep { $_->stat('in_flight') } values %mock }, "$what: nor at the servers");
	is(ask("SELECT count(infer.complete('all', '$what then ' || i)) FROM generate_series(1, 40) AS i"), 40, "$what: calls work");
	is(ask($out), '0|0|0|0', "$what: and leave nothing");
}

# ----------------------------------------------------------------------------------------------
# A standby.

$node->backup('copy');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'copy', has_streaming => 1);
$standby->start;
is(ask('SELECT pg_is_in_recovery()', $standby), 't', 'standby: it is one');
is_soon(sub { gateway($standby) }, 'standby: it has a gateway');
is(ask(q{SELECT count(infer.complete('all', 'standby ' || i)) FROM generate_series(1, 40) AS i}, $standby), 40, 'standby: calls work');
is(ask(q{SELECT (infer.try_complete('all', 'standby', '{}', '{"hedge": true}')).value}, $standby), 'standby', 'standby: outcomes, too');
is(ask(q{SELECT infer.complete(infer.ref('all'), 'by reference')}, $standby), 'by reference', 'standby: references');
is_soon(sub { ask(q{SELECT count(*) FROM infer.stat_servers WHERE last_probe IS NOT NULL AND state = 'up'}, $standby) == 3 }, 'standby: its gateway probes');
is(ask($out, $standby), '0|0|0|0', 'standby: its views');
is(ask(q{SELECT count(*) > 0 FROM infer.explain_route('all')}, $standby), 't', 'standby: routes are explained');
foreach my $sql (q{infer.create_model('x', 'complete', 's1')}, q{infer.drop_model('all')}, q{infer.alter_model('all', strategy => 'rr')},
	q{infer.add_placement('all', 's1', 'n')}, q{infer.drop_placement('all', 's1')}, q{infer.alter_placement('all', 's1', weight => 2)},
	q{infer.replace_placements('all', '[]', 1000000)})
{
	my (undef, undef, $err) = $standby->psql('postgres', "\\set VERBOSITY verbose\nSELECT $sql");
	like($err, qr/ERROR:  25006: cannot execute infer\.\w+\(\) (?:during recovery|in a read-only transaction)/, "standby: $sql is refused");
}
is(ask(q{SELECT drained FROM infer.drain('s1', '1 s')}, $standby), 't', 'standby: a server is drained there');
is(ask(q{SELECT state FROM infer.stat_servers WHERE server = 's1'}, $standby), 'draining', '... and says so');
is(ask(q{SELECT count(*) FROM infer.stat_servers WHERE state = 'draining'}), 0, '... but not here');
ask(q{SELECT infer.undrain('s1')}, $standby);

# What changes there is news here; and the standby is promoted.
ask(q{SELECT infer.drop_placement('all', 's3'); SELECT infer.create_model('late', 'complete', 's2', 'm')});
$node->wait_for_catchup($standby);
is(ask(q{SELECT infer.complete('late', 'late')}, $standby), 'late', 'standby: a model that came meanwhile');
$mock{s3}->reset;
is(ask(q{SELECT count(infer.complete('all', 'less ' || i)) FROM generate_series(1, 20) AS i}, $standby), 20, 'standby: a placement that went meanwhile');
is($mock{s3}->stat('requests'), 0, '... gets nothing');
$node->stop('immediate');
my $gateway = gateway($standby);
$standby->promote;
is(ask(q{SELECT infer.create_model('own', 'complete', 's1', 'm'); SELECT infer.complete('own', 'own')}, $standby), "\nown", 'promoted: it can be changed');
is(gateway($standby), $gateway, 'promoted: the gateway has gone on');
$standby->stop;
foreach my $log (map { slurp_file($_->logfile) } $node, $standby)
{
	unlike($log, qr/PANIC|TRAP|signal 11|signal 6/, 'nothing crashed by itself');
}
done_testing();
