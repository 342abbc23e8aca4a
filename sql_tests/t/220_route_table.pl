# The route table: what is in flight at each server is counted, and comes back whatever ends it;
# slots are found, reused and forgotten.  What its views show: sql/route_stats.sql.
use strict;
use warnings;
use InferTest;
use InferProc;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $mock = InferTest::Mock->new('base_ms=5', 'slots=64', 'queue=1000');
# probes have tests of their own
my $node = InferTest::new_node('routes', 'pg_inference.gateway = off', 'pg_inference.max_servers = 2',
	'pg_inference.streaming_mode = per_row', 'autovacuum = off');

sub ask { return $node->safe_psql($_[1] // 'postgres', $_[0]); }
# A row's columns, those of all rows in order of their servers.
sub servers { return ask("SELECT string_agg(concat_ws(' ', $_[0]), ',' ORDER BY database, server) FROM infer.stat_servers" . ($_[1] // '')); }

sub make_server
{
	my ($name, $url, $database) = @_;
	ask("CREATE SERVER $name FOREIGN DATA WRAPPER pg_inference
		OPTIONS (url '$url/v1', admission_key '$name', max_concurrency '16')", $database);
	return;
}

sub hold
{
	my ($server) = @_;
	my $n = $mock->stat('in_flight');
	my $session = InferProc->start($node, "holds $server", "SELECT infer.complete('$server/m', '[[mock:hang]]');");
	ok(InferTest::wait_until(60, sub { $mock->stat('in_flight') > $n }), "a request to $server is in flight");
	return $session;
}

sub let_go
{
	my ($session) = @_;
	ask('SELECT pg_cancel_backend(' . $session->backend . ')');
	$session->finish;
	return;
}

ask('CREATE EXTENSION pg_inference');
make_server("s$_", $mock->url) foreach 1 .. 3;

# A full table: calls go on without a slot, and say so; the one used longest ago makes room.
{
	my @holders = map { hold("s$_") } 1 .. 2;
	is(servers('server, in_flight'), 's1 1,s2 1', 'both slots are in use');
	my ($rc, $out, $err) = $node->psql('postgres',
		q{SELECT infer.complete('s3/m', 'one') <> ''; SELECT infer.complete('s3/m', 'two') <> '';});
	is($out, "t\nt", 'full: calls to a third server are answered');
	my @warnings = $err =~ /(WARNING:[^\n]*)/g;
	is(scalar @warnings, 1, 'full: and it is said, once a session') or diag($err);
	like($err, qr/pg_inference\.max_servers/, 'full: with what would help');
	let_go($_) foreach reverse @holders; # s1 is used last
	is(servers('server, in_flight'), 's1 0,s2 0', 'cancelled: nothing is in flight');
	my $generation = servers('generation', " WHERE server = 's2'");
	ask(q{SELECT infer.complete('s3/m', 'three')});
	is(servers('server'), 's1,s3', 'the one used longest ago makes room');
	is(servers('generation', " WHERE server = 's3'"), $generation + 1,
		'reused: another generation');
	is(servers('answers', " WHERE server = 's3'"), 1, 'reused: with nothing of the last one');
}

# The server's url changes while a request is on its way: the new endpoint does not hear of the old.
{
	my $other = InferTest::Mock->new;
	my $holder = hold('s1');
	my $before = servers('generation', " WHERE server = 's1'");
	ask("ALTER SERVER s1 OPTIONS (SET url '@{[ $other->url ]}/v1')");
	ask(q{SELECT infer.complete('s1/m', 'at the new place')});
	my @what = ('answers, failures, in_flight, outstanding', " WHERE server = 's1'");
	is(servers(@what), '1 0 0 0', 'another url is another endpoint');
	isnt(servers('generation', " WHERE server = 's1'"), $before, '... and generation');
	let_go($holder);
	is(servers(@what), '1 0 0 0', 'what ends of the old one is not its own');
	ask("ALTER SERVER s1 OPTIONS (SET url '@{[ $mock->url ]}/v1')");
}

# The server is dropped while a request is on its way.
{
	my $holder = hold('s1');
	ask('DROP SERVER s1');
	unlike(servers('server'), qr/s1/, 'a dropped server is gone');
	let_go($holder);
	make_server('s1', $mock->url);
	ask(q{SELECT infer.complete('s1/m', 'again')});
	is(servers('answers, in_flight', " WHERE server = 's1'"), '1 0',
		'one of the same name is another one');
}

# So many can be drained as there are slots. Those that are gone, with their database or without, make room.
{
	ask('CREATE DATABASE goes');
	ask('CREATE EXTENSION pg_inference', 'goes');
	make_server('t', $mock->url, 'goes');
	my $drain = sub { my (undef, undef, $err) = $node->psql('postgres', "SELECT infer.drain('$_[0]', '0')"); return $err; };
	ask(q{SELECT infer.drain('t', '0')}, 'goes');
	is($drain->('s1'), '', 'drained: one in each database');
	like($drain->('s2'), qr/no room for another drained server.*undrain.*max_servers/s, 'drained: there is no room for a third');
	is(ask(q{SELECT infer.complete('s2/m', 'still there') <> ''}), 't', 'drained: it is not drained');
	ask('DROP DATABASE goes');
	is($drain->('s2'), '', 'drained: the place of a database that is gone');
	make_server('s4', $mock->url);
	ask('DROP SERVER s1');
	is($drain->('s4'), '', 'drained: the place of a server that is gone');
	make_server('s1', $mock->url);
	is(ask(q{SELECT infer.complete('s1/m', 'not drained') <> ''}), 't', 'drained: one of its name is another one');
	ask('DROP SERVER s4; SELECT infer.undrain()');
}

# Who has read the catalogs before a change, and is late to say so, does not take it back.
{
	my $other = InferTest::Mock->new;
	ask(q{CREATE FUNCTION waits(model text, header jsonb, args jsonb, config jsonb) RETURNS jsonb LANGUAGE plpgsql AS
		'BEGIN PERFORM pg_advisory_lock(7), pg_advisory_unlock(7); RETURN header; END';
		SELECT infer.create_model('late', 'complete', 's1', 'm', class_fns => '{"waits(text,jsonb,jsonb,jsonb)"}')});
	my $gate = InferProc->start($node, 'gate', 'SELECT pg_advisory_lock(7); SELECT pg_sleep(60);');
	my $locks = sub { return ask(q{SELECT count(*) FILTER (WHERE NOT granted) || ' ' || count(*) FROM pg_locks WHERE locktype = 'advisory'}) };
	ok(InferTest::wait_until(30, sub { $locks->() eq '0 1' }), 'late: somebody is to be waited for');
	my $late = InferProc->start($node, 'late', q{SELECT infer.complete('late', 'late') <> ''});
	ok(InferTest::wait_until(30, sub { $locks->() eq '1 2' }), 'late: it has read the catalogs, and waits');
	ask("ALTER SERVER s1 OPTIONS (SET url '@{[ $other->url ]}/v1')");
	ask(q{SELECT infer.complete('s1/m', 'published')});
	my $generation = servers('generation', " WHERE server = 's1'");
	ask('SELECT pg_terminate_backend(' . $gate->backend . ')');
	$gate->finish;
	is(($late->finish)[0], "t\n", 'late: it is answered');
	ok($mock->ledger->{late}, 'late: by the server as it was');
	is(servers('generation, answers', " WHERE server = 's1'"), "$generation 1", 'late: the table goes on with the server as it is');
	ask("SELECT infer.drop_model('late'); ALTER SERVER s1 OPTIONS (SET url '@{[ $mock->url ]}/v1')");
}

# A restart forgets all.
$node->append_conf('postgresql.conf', "pg_inference.max_servers = 64\npg_inference.max_admission_keys = 2\n");
$node->restart;
is(ask('SELECT count(*) FROM infer.stat_servers'), 0, 'after a restart nothing is known');

# A full table of admission keys: a model's servers that are not in it are left out, which is said once a session;
# without another one the call is refused.
{
	ask(q{SELECT infer.complete('s1/m', 'fills'), infer.complete('s2/m', 'fills')});
	ask(q{SELECT infer.create_model('one', task => 'complete', server => 's3', remote_model => 'm');
		SELECT infer.create_model('two', task => 'complete', server => 's3', remote_model => 'm');
		SELECT infer.add_placement('two', 's1', 'm')});
	my $left_out = q{SELECT string_agg(concat_ws(' ', server, verdict, reason), ', ') FROM infer.explain_route('two', '{}') WHERE phase = 1};
	like(ask($left_out), qr/^s3 eliminated no_room: .*pg_inference\.max_admission_keys/, 'no key: infer.explain_route() says so');
	my ($rc, $out, $err) = $node->psql('postgres',
		q{SELECT server, reason FROM infer.try_complete('two', 'one'); SELECT count(infer.complete('two', 'row ' || i)) FROM generate_series(1, 9) AS i;});
	is($out, "s1|\n9", 'no key: calls go to the other server');
	my @warnings = $err =~ /(WARNING:[^\n]*)/g;
	is("@warnings", 'WARNING:  server "s3" is left out, for there is no room for its admission key', 'no key: and it is said, once a session')
	  or diag($err);
	foreach (q{SELECT infer.complete('one', 'x')}, q{SELECT infer.complete('two', 'x', options => '{"route_prefs": {"exclude": ["s1"]}}')})
	{
		($rc, $out, $err) = $node->psql('postgres', $_);
		isnt($rc, 0, 'no key: without another server the call fails');
		like($err, qr/pg_inference\.max_admission_keys/, '... and says what would help');
	}
}
$node->append_conf('postgresql.conf', "pg_inference.max_admission_keys = 256\n");
$node->restart;

# Databases: each has its own servers, whatever they are called.
{
	foreach my $i (1 .. 3)
	{
		ask("CREATE DATABASE d$i");
		ask('CREATE EXTENSION pg_inference', "d$i");
		make_server('s', $mock->url, "d$i");
		ask("SELECT count(infer.complete('s/m', 'd$i ' || i)) FROM generate_series(1, $i) AS i", "d$i");
	}
	my $what = q{string_agg(concat_ws(' ', database, server, answers), ',' ORDER BY database)};
	is(servers('database, server, answers'), 'd1 s 1,d2 s 2,d3 s 3', 'one row for each database');
	is(ask("SELECT $what FROM infer.stat_nodes AS n JOIN infer.stat_servers AS s USING (database, node)"),
		'd1 s 1,d2 s 2,d3 s 3', '... which are nodes of their own');
	ask('CREATE ROLE somebody');
	is(ask('SET ROLE somebody; SELECT count(*) FROM infer.stat_servers', 'd1'), 0, 'not for everybody');
	ask('GRANT USAGE ON FOREIGN SERVER s TO somebody', 'd1');
	is(ask("SET ROLE somebody; SELECT $what FROM infer.stat_servers", 'd1'), 'd1 s 1', 'of one database, for who may use it');
	ask('DROP DATABASE d1');
	is(servers('database, server, answers'), 'd2 s 2,d3 s 3', 'a database that is gone is not shown');
}

# A database of another encoding: what is no text here does not keep the rest from being shown.
{
	ask("CREATE DATABASE $_ ENCODING '$_' LOCALE 'C' TEMPLATE template0") foreach qw(latin1 utf8);
	ask('CREATE EXTENSION pg_inference', $_) foreach qw(latin1 utf8);
	make_server('plain', $mock->url, 'utf8');
	ask(q{SELECT infer.complete('plain/m', 'x')}, 'utf8');
	ask("SET client_encoding = 'latin1'; CREATE SERVER \"s\xe9r\" FOREIGN DATA WRAPPER pg_inference OPTIONS (url '@{[ $mock->url ]}/v1');
		SELECT infer.complete('s\xe9r/mod\xe8le', 'x')", 'latin1');
	my $see = sub { return ask("SET client_encoding = 'latin1'; SELECT $_[0]", 'utf8'); };
	is($see->(q{string_agg(server || ' ' || node, ',' ORDER BY server) FROM infer.stat_servers WHERE database IN ('latin1', 'utf8')}),
		'plain plain,s?r s?r', 'another encoding: stat_servers');
	is($see->(q{node FROM infer.stat_nodes WHERE database = 'latin1'}), 's?r', 'another encoding: stat_nodes');
	is($see->(q{server || ' ' || remote_model FROM infer.stat_models WHERE database = 'latin1'}), 's?r mod?le', 'another encoding: stat_models');
	is($see->(q{server || ' ' || remote_model FROM infer.stat_usage WHERE datname = 'latin1'}), 's?r mod?le', 'another encoding: stat_usage');
	is(ask("SET client_encoding = 'latin1'; SELECT server FROM infer.stat_servers WHERE database = 'latin1'", 'latin1'), "s\xe9r", '... where it is text');
	ask("DROP DATABASE $_") foreach qw(latin1 utf8);
}

# fail_P42: a model that a server does not have is not asked for again for a while, by the role whose
# key the server said it to; other models and roles are not concerned, nor is it said by a refusal.
{
	my $n;
	my $sent = sub { my $before = $n // 0; $n = $mock->stat('requests'); return $n - $before; };
	my $try = sub {
		my ($role, $model, $text) = @_;
		return ask("SET ROLE $role; SELECT coalesce(reason, 'answered') FROM infer.try_complete('$model', '$text', '{}', '{\"max_attempts\": 2}')");
	};
	ask("CREATE ROLE $_; GRANT USAGE ON FOREIGN SERVER s1, s2 TO $_") foreach qw(anna berta);
	foreach my $model (qw(twin other))
	{
		ask("SELECT infer.create_model('$model', 'complete', 's1', '$model'); SELECT infer.add_placement('$model', 's2')");
	}
	foreach my $status (401, 403, 429, 404)
	{
		$try->('anna', 'twin', "[[mock:$status]]");
		$sent->();
		is($try->('anna', 'twin', "after $status"), 'answered', "fail_P42: $status says nothing of the model");
		is($sent->(), 1, '... which is asked for again');
	}
	$sent->();
	my $what = $try->('anna', 'twin', '[[mock:nomodel]]');
	is($sent->(), 2, "fail_P42: neither server has the model ($what)");
	isnt($try->('anna', 'twin', 'again'), 'answered', '... then it is not asked for it again');
	is($sent->(), 0, '... by that role');
	is($try->('anna', 'other', 'other'), 'answered', '... but for another one');
	is($try->('berta', 'twin', 'again'), 'answered', '... and by another role, whose key may open more');
	ask("SELECT infer.alter_placement('twin', 's1', weight => 2)");
	is($try->('anna', 'twin', 'changed'), 'answered', '... and again when its placements have changed');
}

# fail_P46: success, errors, cancels, aborted subtransactions, rows cut off, ends of processes: when
# all is over nothing is in flight and nothing outstanding, anywhere.
{
	ask('CREATE TABLE texts AS SELECT i, CASE i % 10 WHEN 3 THEN \'[[mock:400]]\' WHEN 5 THEN \'[[mock:drop]]\'
		WHEN 7 THEN \'[[mock:late]]\' ELSE \'text\' END || i AS text FROM generate_series(1, 200) AS i');
	ask(q{CREATE PROCEDURE mix(seed double precision) LANGUAGE plpgsql AS $$
		DECLARE server text; n bigint;
		BEGIN
			PERFORM setseed(seed);
			FOR round IN 1 .. 1000 LOOP
				server := 's' || 1 + floor(random() * 3);
				BEGIN
					PERFORM set_config('statement_timeout', '0', false);
					CASE floor(random() * 4)
					WHEN 0 THEN
						SELECT count(infer.complete(server || '/m', text)) INTO n FROM texts WHERE i % 10 IN (1, 2, 4);
					WHEN 1 THEN -- an error in the midst of it
						SELECT count(infer.complete(server || '/m', round || text)) INTO n FROM texts;
					WHEN 2 THEN -- given up
						PERFORM infer.complete(server || '/m', round || text) FROM texts WHERE i % 10 IN (1, 2, 7) LIMIT 5;
					ELSE -- outcomes
						SELECT count(*) INTO n FROM texts, infer.try_complete(server || '/m', round || text, '{}',
							'{"timeout": "60ms", "max_attempts": 1}') WHERE i < 20;
					END CASE;
				EXCEPTION WHEN OTHERS THEN
					NULL;
				END;
				COMMIT;
			END LOOP;
		END $$});
	$mock->set('late_ms=80', 'base_ms=2');
	my @sessions = map { InferProc->start($node, "mix $_", "CALL mix($_ / 10.0);\n" x 50) } 1 .. 6;
	my $most = 0;
	foreach my $round (1 .. 20)
	{
		my $at = Time::HiRes::time;
		InferTest::wait_until(5, sub {
			my $n = ask('SELECT coalesce(sum(in_flight), 0) FROM infer.stat_servers');
			$most = $n if $n > $most;
			return Time::HiRes::time() - $at > 0.1;
		});
		ask('SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name = \'mix ' . (1 + $round % 6) . '\'');
	}
	ok($most > 0, "fail_P46: as many as $most were in flight");
	ask(q{SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE application_name LIKE 'mix %'});
	$_->finish foreach @sessions;
	my $rows = q{count(*), count(*) FILTER (WHERE in_flight <> 0 OR outstanding <> 0 OR waiting <> 0), bool_and(answers > 0), bool_and(failures > 0)};
	is(ask("SELECT $rows FROM infer.stat_servers WHERE database = 'postgres'"), '3|0|t|t',
		'fail_P46: and nothing is left in flight or outstanding');
	is(ask('SELECT sum(in_flight) FROM infer.stat_admission'), 0, '... under any admission key');

	# a process whose abort fails has its exit to give back what it holds
	my $library = InferProc::build_bad_abort(PostgreSQL::Test::Utils::tempdir);
	my $holder = InferProc->start($node, 'holder', qq{LOAD '$library';
		SELECT infer.complete('s1/m', '[[mock:hang]]' || i) FROM generate_series(1, 4) AS i;});
	my @what = ('in_flight, outstanding', q{ WHERE database = 'postgres' AND server = 's1'});
	ok(InferTest::wait_until(60, sub { servers(@what) eq '4 4' }), 'fail_P46: four are in flight');
	ask('SELECT pg_terminate_backend(' . $holder->backend . ', 60000)');
	$holder->finish;
	is(servers(@what), '0 0', 'fail_P46: the end of their process gives them back');
	like(slurp_file($node->logfile), qr/FATAL:  this transaction cannot be aborted/, '... whose abort had failed');
	unlike(slurp_file($node->logfile), qr/PANIC|terminated by signal|TRAP/, 'and nothing crashed');
}

$node->stop;
done_testing();
