# Servers that answer as no server should, encodings that cannot hold what they say, and sessions
# that do not look after their requests: each row has its own clear failure, memory stays bounded,
# nobody waits for ever, no permit is lost.
use strict;
use warnings;
use InferTest;
use InferProc;
use InferHostile;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $mock = InferTest::Mock->new;
my $hostile = InferHostile->new;
my $hostile_url = $hostile->url;
# a server that does nothing but evil in a row would be left alone, and not show what it can do
my $node = InferTest::new_node('hostile', 'pg_inference.max_response_size = 8MB',
	'max_files_per_process = 64', 'pg_inference.failure_threshold = 0');
InferTest::connect_mock($node, $mock, max_concurrency => 2, request_timeout => 1000);

sub hostile_server
{
	return "CREATE SERVER hostile FOREIGN DATA WRAPPER pg_inference OPTIONS (url '$hostile_url/v1')";
}

sub ask { return $node->safe_psql('postgres', join("\n", @_)); }
ask(hostile_server());

# What try_ says of a call: value, reason and execution, with and without InferScan.
sub outcomes
{
	my ($call, $database) = @_;
	return map {
		$node->safe_psql($database // 'postgres', qq{
			SET statement_timeout = '60s'; SET pg_inference.enable = $_;
			SELECT left((o).value::text, 20), (o).reason, (o).execution
			FROM (SELECT infer.$call AS o FROM generate_series(1, 1) i OFFSET 0) s})
	} qw(on off);
}

sub embed_says
{
	my ($mode, $wanted) = @_;
	my ($on, $off) = outcomes("try_embed('hostile/$mode', 'x' || i)");
	ref $wanted ? like($on, $wanted, "embed, $mode") : is($on, $wanted, "embed, $mode");
	is($off, $on, "embed, $mode: the same without InferScan");
	return;
}

# ----------------------------------------------------------------------------------------------
# Each answer is read, or is one failure.

my $good = '{0.1,0.2}||executed';
embed_says($_->[0], $_->[1])
  foreach [ ok => $good ],
  [ endless_head => '|malformed_reply|maybe_executed' ],
  [ endless_line => '|malformed_reply|maybe_executed' ],
  [ endless_100 => '|malformed_reply|maybe_executed' ],
  [ many_100 => $good ],
  [ http_09 => '|malformed_reply|maybe_executed' ],
  [ http_37 => qr/^\|malformed_reply\|(maybe_)?executed$/ ], # by version of curl
  [ rubbish => '|malformed_reply|maybe_executed' ],
  [ status_000 => '|malformed_reply|maybe_executed' ],
  [ status_204 => '|incomplete_reply|maybe_executed' ],
  [ status_304 => '|redirected|not_admitted' ],
  [ status_307 => '|redirected|not_admitted' ],
  [ status_999 => '|server_error|maybe_executed' ],
  [ wait_a_day => '|overloaded|not_admitted' ],
  [ wait_minus => '|overloaded|not_admitted' ],
  [ length_short => '|malformed_reply|executed' ],
  [ length_long => '|incomplete_reply|executed' ],
  [ length_minus => '|malformed_reply|maybe_executed' ],
  [ length_huge => '|reply_too_large|executed' ],
  [ chunk_bad => '|incomplete_reply|maybe_executed' ],
  [ chunk_huge => '|incomplete_reply|maybe_executed' ],
  [ endless_body => '|reply_too_large|executed' ],
  [ bomb => '|reply_too_large|executed' ],
  [ no_gzip => '|malformed_reply|maybe_executed' ],
  [ deep => '|malformed_reply|executed' ],
  [ twice => '|malformed_reply|executed' ],
  [ many_keys => $good ],
  [ no_dims => '|malformed_reply|executed' ],
  [ many_dims => '{0.5,0.5,0.5,0.5,0.5||executed' ],
  [ nan => '|malformed_reply|executed' ],
  [ huge => '|malformed_reply|executed' ],
  [ digits => '{0.11111111,0}||executed' ],
  [ base64_nan => '|malformed_reply|executed' ],
  [ base64_odd => '|malformed_reply|executed' ],
  map { [ "usage_$_" => $good ] } qw(nul half bytes number foreign);

my ($code, $out, $err) =
  $node->psql('postgres', q{SELECT infer.embed('hostile/many_items', 'x')});
like($err, qr/cannot be matched to the inputs/, 'embed, many_items: an error that says so');

foreach my $case (
	[ text_bytes => '|malformed_reply|executed' ],
	[ text_nul => '|malformed_reply|executed' ],
	[ text_half => '|malformed_reply|executed' ],
	[ text_foreign => "\xe6\x97\xa5\xe6\x9c\xac||executed" ])
{
	my ($on, $off) = outcomes("try_complete('hostile/$case->[0]', 'x' || i)");
	is($on, $case->[1], "complete, $case->[0]");
	is($off, $on, "complete, $case->[0]: the same without InferScan");
}

foreach my $case (
	[ raw_nul => '|malformed_reply|executed' ],
	[ raw_half => '|malformed_reply|executed' ],
	[ raw_number => '|malformed_reply|executed' ],
	[ raw_deep => '|malformed_reply|executed' ],
	[ raw_two => '|malformed_reply|executed' ],
	[ raw_ok => '{"a": 2}||executed' ])
{
	my ($on, $off) =
	  outcomes("try_call('hostile/', jsonb_build_object('model', '$case->[0]', 'row', i))");
	is($on, $case->[1], "call, $case->[0]");
	is($off, $on, "call, $case->[0]: the same without InferScan");
}

# What is quoted of a server: no control characters, and no half answer as if it were its words.
sub error_of
{
	my ($sql, $database) = @_;
	my (undef, undef, $said) = $node->psql($database // 'postgres', $sql);
	return $said;
}
like(error_of(q{SELECT infer.embed('hostile/error_control', 'x')}),
	qr/"a\\x1b\[31m/, 'control characters in an error text are shown, not sent');
is( (outcomes(q{try_embed('hostile/error_timeout', 'x' || i)}))[0],
	'|server_error|maybe_executed', 'rpc_G2: words about a timeout are none');
unlike(error_of(q{SELECT infer.embed('hostile/length_long', 'x')}),
	qr/embedding"/, 'half an answer is not quoted as an error text');
like(error_of(q{SELECT infer.embed('hostile/endless_line', 'x')}),
	qr/header of the answer is too long/, 'a header without end is called that');
like(error_of(q{SELECT infer.embed('hostile/wait_a_day', 'x')}),
	qr/after 1 attempt.*pause of 86400 s/, 'a Retry-After of a day is told, not waited for');

# All of it in one backend, twice: memory does not add up.
my @modes = qw(endless_head endless_line endless_body bomb deep many_keys many_dims twice length_huge);
my $session = InferProc->start(
	$node,
	'memory',
	join('',
		map { my $round = $_;
			  (map { "SELECT (infer.try_embed('hostile/$_', 'x')).reason;\n" } @modes,
				  @modes),
			  "SELECT 'rss', substring(pg_read_file('/proc/self/status') FROM 'RssAnon:\\s+(\\d+)');\n" }
		  1 .. 3));
($out, $err) = $session->finish;
my @rss = $out =~ /^rss\|(\d+)/mg;
is(scalar @rss, 3, 'memory: the session lives') or diag($err);
note("RssAnon in kB: @rss");
cmp_ok($rss[2], '<', 100 * 1024, 'memory: bounded');
cmp_ok($rss[2] - $rss[0], '<', 16 * 1024, 'memory: does not add up');

# ----------------------------------------------------------------------------------------------
# Parameters that differ by row make a call class a row; the memo counts those, too.

$mock->set('defaults', 'dim=4');
foreach my $enable (qw(on off))
{
	($out) = InferProc->start(
		$node, 'classes',
		qq{SET pg_inference.enable = $enable; SET pg_inference.memo_memory = '1MB';
		SET pg_inference.buffer_memory = '4MB';
		SELECT 'rows', count(infer.embed('m', 'x', jsonb_build_object('user', i))) FROM generate_series(1, 8000) i;
		SELECT 'rss', substring(pg_read_file('/proc/self/status') FROM 'RssAnon:\\s+(\\d+)');})->finish;
	like($out, qr/^rows\|8000$/m, "classes, enable $enable: all are answered");
	my ($rss) = $out =~ /^rss\|(\d+)/m;
	note("RssAnon in kB: $rss");
	cmp_ok($rss, '<', 32 * 1024, "classes, enable $enable: memory is bounded");
}

# ----------------------------------------------------------------------------------------------
# Encodings: what cannot be stored is its row's failure; what accompanies it loses characters only.

foreach my $encoding (qw(LATIN1 SQL_ASCII))
{
	my $database = lc $encoding;
	ask("CREATE DATABASE $database ENCODING '$encoding' TEMPLATE template0 LOCALE 'C'");
	$node->safe_psql($database, 'CREATE EXTENSION pg_inference; ' . hostile_server());
}
foreach my $case (
	[ latin1 => "try_complete('hostile/text_foreign', 'x' || i)", '|malformed_reply|executed' ],
	[ sql_ascii => "try_complete('hostile/text_foreign', 'x' || i)",
		"\xe6\x97\xa5\xe6\x9c\xac||executed" ],
	[ latin1 => q{try_call('hostile/', '{"model": "raw_escape"}')}, '|malformed_reply|executed' ],
	[ sql_ascii => q{try_call('hostile/', '{"model": "raw_escape"}')}, '|malformed_reply|executed' ],
	[ latin1 => "try_embed('hostile/usage_foreign', 'x' || i)", $good ])
{
	my ($database, $call, $wanted) = @$case;
	my ($on, $off) = outcomes($call, $database);
	is($on, $wanted, "$database: $call");
	is($off, $on, "$database: $call, the same without InferScan");
}
is($node->safe_psql('latin1',
		q{SELECT infer.complete('hostile/text_foreign', 'x', options => '{"on_error": "null"}') IS NULL}),
	't', 'latin1: on_error is obeyed');
is($node->safe_psql('latin1', q{SELECT (infer.try_embed('hostile/usage_foreign', 'x')).usage}),
	'{"x": "?"}', 'latin1: usage figures lose characters');
like(error_of(q{SELECT infer.embed('hostile/error_foreign', 'x')}, 'latin1'),
	qr/"\? broken"/, 'latin1: and so do error texts');

# ----------------------------------------------------------------------------------------------
# An error while a request is being made ready: the permit it has comes back. Reading the key looks
# at the user mappings, which somebody has locked.

sub admission { return ask("SELECT $_[0] FROM infer.stat_admission WHERE key LIKE '%' || substring('" . $mock->url . "' FROM ':\\d+\$')"); }

my $locker = InferProc->start($node, 'locker',
	'BEGIN; LOCK TABLE pg_user_mapping IN ACCESS EXCLUSIVE MODE; SELECT pg_sleep(600);');
my $locked = $locker->backend;
ok($node->poll_query_until('postgres',
		"SELECT count(*) = 1 FROM pg_locks WHERE pid = $locked AND mode = 'AccessExclusiveLock' AND granted"),
	'locked catalog: it is');
$session = InferProc->start($node, 'blocked', q{
	SET statement_timeout = '300ms';
	SELECT infer.embed('m', 'blocked');
	SELECT infer.embed('m', 'blocked ' || i) FROM generate_series(1, 3) i;
	DO $$ BEGIN PERFORM infer.embed('m', 'caught'); EXCEPTION WHEN query_canceled THEN
		PERFORM set_config('statement_timeout', '0', false); END $$;
	SET statement_timeout = 0;
	SELECT 'in flight', in_flight FROM infer.stat_admission WHERE max_limit = 2;
	SELECT pg_terminate_backend(} . $locked . q{);
	SELECT 'answered', infer.embed('m', 'blocked') IS NOT NULL;
});
($out, $err) = $session->finish;
$locker->finish;
is(scalar(() = $err =~ /statement timeout/g), 2, 'locked catalog: statements end') or diag($err);
like($out, qr/^in flight\|0$/m, 'locked catalog: their permits come back');
like($out, qr/^answered\|t$/m, 'locked catalog: the session goes on');

# ----------------------------------------------------------------------------------------------
# A session that does not look: its cursor has all permits out for requests that have long ended, and
# it sleeps. Those who wait take them. (The last call is to see to it that the cursor's are sent.)

$mock->set('defaults', 'dim=4');
$mock->reset;
my $sleeper = InferProc->start($node, 'sleeper', q{
	SET pg_inference.streaming_mode = per_row;
	DO $$
	DECLARE
		c CURSOR FOR SELECT i, infer.try_embed('m', CASE WHEN i > 12 THEN '[[mock:hang]] ' ELSE 'good ' END || i) AS o
			FROM generate_series(1, 20) i;
		r record;
	BEGIN
		OPEN c;
		FOR k IN 1 .. 12 LOOP
			FETCH c INTO r;
		END LOOP;
		PERFORM infer.embed('hostile/ok', 'push');
		PERFORM pg_sleep(10);
		FOR k IN 13 .. 20 LOOP
			FETCH c INTO r;
			RAISE NOTICE 'row % %', r.i, (r.o).reason;
		END LOOP;
		CLOSE c;
	END $$;
	SELECT 'in flight', in_flight FROM infer.stat_admission WHERE max_limit = 2;
});
$sleeper->backend;
ok(InferTest::wait_until(5, sub { admission('in_flight') == 2 }),
	'sleeper: its read-ahead has all permits');
my $start = time;
is(ask(q{SET statement_timeout = '15s'; SELECT count(infer.embed('m', 'other ' || i)) FROM generate_series(1, 300) i}),
	300, 'sleeper: another session gets them');
note(sprintf 'sleeper: after %.1f s', time - $start);
is(ask(q{SELECT wait_event FROM pg_stat_activity WHERE application_name = 'sleeper'}), 'PgSleep',
	'sleeper: when its requests have timed out, not when it awakes');
is(admission('in_flight'), 0, 'sleeper: they are not counted any more');
($out, $err) = $sleeper->finish;
is(scalar(() = $err =~ /row \d+ timeout/g), 8, 'sleeper: gets all of its rows') or diag($err);
like($out, qr/^in flight\|0$/m, 'sleeper: what it gives back late is not counted twice');
is(admission('in_flight, waiting'), '0|0', 'sleeper: nothing is left');

# A role that may use a server can neither get around its limit nor fill the table of keys.

like(error_of(q{CREATE ROLE guest; GRANT USAGE ON SCHEMA infer TO guest; GRANT USAGE ON FOREIGN SERVER mock TO guest;
		SET ROLE guest;
		SELECT infer.try_embed('m', 'x', options => '{"admission_key": "my own"}');}),
	qr/permission denied to choose the admission key/, 'a guest cannot choose an admission key');
is(ask(q{SELECT count(*) FROM infer.stat_admission WHERE key = 'my own'}), 0, 'and makes none');
like(error_of(qq{SET ROLE guest; SELECT infer.try_embed('m', 'x', options => '{"$_": 0}');}),
	qr/permission denied to choose the rate limit/, "a guest cannot choose another $_") foreach qw(rpm tpm);

# A server repeats the key it was sent, also where its words are cut: nothing of it shows.

my $key_file = PostgreSQL::Test::Utils::tempdir . '/hostile.key';
append_to_file($key_file, 'sk-hostile-Ohng2Eeshae5');
ask("CREATE USER MAPPING FOR PUBLIC SERVER hostile OPTIONS (api_key_file '$key_file')");
foreach my $mode (qw(error_key error_half_key))
{
	my $raised = error_of("SELECT infer.complete('hostile/$mode', 'x')");
	my $told = ask("SELECT (infer.try_complete('hostile/$mode', 'x')).error");
	like("$raised$told", qr/"x{235} \*+\.\.\. .*: x{235} \*+|"bad key .*: bad key /s, "$mode: the words are shown");
	unlike("$raised$told", qr/sk-h/, "$mode: the key is not");
}
ask('DROP USER MAPPING FOR PUBLIC SERVER hostile');

# A budget ends in the midst of a batch: what it has left is made, with and without InferScan.

foreach my $enable (qw(on off))
{
	is( ask(qq{SET pg_inference.enable = $enable; SET pg_inference.statement_call_budget = 10;},
			q{SELECT count((o).value), count(*) FILTER (WHERE (o).reason = 'budget' AND i > 10)
			FROM (SELECT i, infer.try_embed('m', 'budget ' || i) AS o FROM generate_series(1, 12) i OFFSET 0) s}),
		'10|2', "budget, enable $enable");
}

# A limit beyond what a process can have open: connections are left for when others have ended.

$mock->set('defaults', 'dim=4', 'base_ms=5');
$mock->reset;
my $url = $mock->url;
ask(qq{CREATE SERVER wide FOREIGN DATA WRAPPER pg_inference
	OPTIONS (url '$url/v1', max_concurrency '400', admission_key 'wide')});
is( ask(q{SET pg_inference.streaming_mode = per_row;
		SELECT count(infer.embed('wide/mock', 'wide ' || i)) FROM generate_series(1, 400) i}),
	400, 'descriptors: all rows are answered');
my $peak = $mock->stat('max_in_flight');
ok($peak > 2 && $peak <= 64 / 3, 'descriptors: a third of them is used') or diag($peak);

unlike(PostgreSQL::Test::Utils::slurp_file($node->logfile),
	qr/PANIC|WARNING|terminated by signal/, 'the log has no complaint');
$node->stop;
done_testing();
