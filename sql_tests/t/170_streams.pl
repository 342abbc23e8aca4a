# Answers that are streamed: whole ones are answers, others are failures that say what they prove.
use strict;
use warnings;
use InferTest;
use InferHostile;
use InferProc;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $mock = InferTest::Mock->new;
my $hostile = InferHostile->new;
my $hostile_url = $hostile->url;
# a server that only ever fails would be left alone
my $node = InferTest::new_node('streams', 'pg_inference.failure_threshold = 0');
InferTest::connect_mock($node, $mock, max_concurrency => 4);
$node->safe_psql('postgres',
	"CREATE SERVER hostile FOREIGN DATA WRAPPER pg_inference OPTIONS (url '$hostile_url/v1', request_timeout '1s')");

sub ask { return $node->safe_psql('postgres', join("\n", @_)); }

# Value, reason, execution and tokens of a call, with InferScan and without.
sub says
{
	my ($mode, $wanted, $name) = @_;
	foreach my $enable (qw(on off))
	{
		is(ask(qq{SET pg_inference.enable = $enable;
			SELECT (o).value, (o).reason, (o).execution, (o).usage ->> 'completion_tokens'
			FROM (SELECT infer.try_complete('hostile/$mode', 'x' || i) AS o FROM generate_series(1, 1) i OFFSET 0) s}),
			$wanted, "$name, enable = $enable");
	}
	return;
}

says('stream_ok', 'Hello||executed|2', 'a whole stream');
says('stream_cut', '|incomplete_reply|executed|', 'fail_P35: cut after a token');
says('stream_closed', '|incomplete_reply|executed|', 'fail_P35: closed after a token, in order');
says('stream_role', '|incomplete_reply|maybe_executed|', 'fail_P35: cut before a token');
says('stream_silent', '|incomplete_reply|maybe_executed|', 'fail_P35: ended before a token');
says('stream_error', '|server_error|executed|', 'fail_P36: an error after a token');
says('stream_refused', '|server_error|maybe_executed|', 'fail_P36: an error before a token');
says('stream_whole_cut', 'Hello||executed|2', 'a whole stream, then the connection is lost');
says('stream_whole_kept', 'Hello||executed|2', 'a whole stream, then nothing until the timeout');
says('stream_rubbish', '|malformed_reply|executed|', 'an event that is no JSON');
says('stream_line', '|reply_too_large|executed|', 'fail_P38: a line over the cap');

my (undef, undef, $said) = $node->psql('postgres', q{SELECT infer.complete('hostile/stream_error', 'x')});
like($said, qr/failed: the server failed.*out of slots/s, 'fail_P36: with the words of the server');

# fail_P38: such a line ends that answer only
is(ask(q{SELECT count(o.value), count(o.error) FROM generate_series(1, 20) AS i,
	infer.try_complete('hostile/' || CASE WHEN i = 7 THEN 'stream_line' ELSE 'stream_ok' END, 'x' || i) AS o}),
	'19|1', 'fail_P38: a line over the cap ends its own answer only');

# What ended before a token may be asked for again where that is allowed, what ended later may not.
foreach my $case ([ stream_role => 3 ], [ stream_cut => 1 ])
{
	my ($mode, $attempts) = @$case;
	is(ask(qq{SELECT o.attempts FROM infer.try_complete('hostile/$mode', 'x', '{}',
		'{"retry": "ambiguous", "max_attempts": 3}') AS o}), $attempts, "attempts with $mode");
}

# fail_P31: chunks as a server makes them, and the same text as in one piece
$mock->set('token_ms=0', 'base_ms=0');
is(ask(q{SELECT count(*), count(*) FILTER (WHERE infer.complete('mock/m', 'text ' || i, '{"max_tokens": 30, "stream": true}')
	= infer.complete('mock/m', 'text ' || i, '{"max_tokens": 30}')) FROM generate_series(1, 100) AS i}),
	'100|100', 'fail_P31: streamed texts are those that are not streamed');
$mock->set('chunked=1');
is(ask(q{SELECT infer.chat('mock/m', '[{"role": "user", "content": "x"}]', '{"max_tokens": 30, "stream": true}')
	= infer.chat('mock/m', '[{"role": "user", "content": "x"}]', '{"max_tokens": 30}')}), 't', 'a streamed chat');

# fail_P37: a cancel in mid-stream closes the connections at once, in a session that lives on.
$mock->set('defaults', 'token_ms=1000');
$mock->reset;
my $session = InferProc->start($node, 'streams',
	q{SELECT infer.complete('mock/m', 'long ' || i, '{"max_tokens": 1000, "stream": true}', '{"timeout": "600s"}')
		FROM generate_series(1, 4) AS i;
	SELECT pg_sleep(600);
});
my $begun = sub { $mock->stat('bytes_out') > 1000 && $mock->stat('in_flight') == 4 };
ok(InferTest::wait_until(60, $begun), 'fail_P37: four streams have begun');
my $start = time;
ask('SELECT pg_cancel_backend(' . $session->backend . ')');
ok(InferTest::wait_until(60, sub { $mock->open_connections == 0 }), 'fail_P37: the server sees them closed');
cmp_ok(time - $start, '<', 10, 'fail_P37: ... soon');
is(ask(q{SELECT sum(in_flight) FROM infer.stat_admission}), 0, 'fail_P37: nothing is left in flight');
ask('SELECT pg_terminate_backend(' . $session->backend . ')');
like(($session->finish)[1], qr/57014/, 'fail_P37: the statement was cancelled');

done_testing();
