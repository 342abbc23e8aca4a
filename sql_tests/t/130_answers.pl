# An answer counts when it is whole and holds what was asked; else its row fails, and only that row,
# with a reason that says why. What a failed answer took is counted, too.
use strict;
use warnings;
use InferTest;
use InferHostile;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $mock = InferTest::Mock->new;
my $hostile = InferHostile->new;
my $node = InferTest::new_node('answers');
InferTest::connect_mock($node, $mock);
my $hostile_url = $hostile->url;

sub ask { return $node->safe_psql('postgres', join("\n", @_)); }
ask("CREATE SERVER hostile FOREIGN DATA WRAPPER pg_inference OPTIONS (url '$hostile_url/v1')");

# Parameters that make the hostile server say these bytes.
sub says
{
	my ($body, $status, @head) = @_;
	my $hex = unpack('H*', $body);
	my $parameters = qq({"hex": "$hex", "status": "@{[$status // '200 OK']}");
	$parameters .= ', "head": [' . join(', ', map { qq("$_") } @head) . ']' if @head;
	return "$parameters}";
}

# The columns of what try_ says of such an answer, with and without InferScan, which must agree.
sub outcome
{
	my ($name, $call, $parameters, $options, $columns) = @_;
	my @said = map {
		ask("SET pg_inference.enable = $_;",
			"SELECT $columns FROM (SELECT infer.$call, '$parameters', '@{[$options // '{}']}') AS o",
			'FROM generate_series(1, 1) i OFFSET 0) s')
	} qw(on off);
	is($said[1], $said[0], "$name: the same without InferScan");
	return $said[0];
}

sub text_is
{
	my ($name, $message, $wanted, $options) = @_;
	my $said = outcome($name, "try_chat('hostile/say', '[]'", says($message),
		$options, '(o).value, (o).error IS NULL, (o).reason, (o).execution');
	is($said, $wanted, $name);
	return;
}

sub message { return qq({"choices":[{"message":$_[0],"finish_reason":@{[$_[1] // 'null']}}],"usage":{"prompt_tokens":5,"completion_tokens":2}}); }

# ----------------------------------------------------------------------------------------------
# A whole answer, by what the server says of its end.

my $accept = '{"truncated": "accept"}';
my $text = '{"content":"some text"}';
text_is('fail_P14: stop', message($text, '"stop"'), 'some text|t||executed');
text_is('fail_P14: no finish_reason', message($text), 'some text|t||executed');
text_is('fail_P14: an unknown finish_reason', message($text, '"eos"'), 'some text|t||executed');
text_is('fail_P14: length', message($text, '"length"'), '|f|truncated|executed');
text_is('fail_P14: length, accepted', message($text, '"length"'),
	'some text|t|truncated|executed', $accept);
text_is('fail_P14: length without a text', message('{"content":null}', '"length"'),
	'|f|truncated|executed', $accept);
text_is('fail_P14: content_filter', message($text, '"content_filter"'), '|f|filtered|executed',
	$accept);
text_is('fail_P14: refusal', message('{"content":null,"refusal":"no"}', '"stop"'),
	'|f|refused|executed');
text_is('fail_P14: tool call', message('{"content":"","tool_calls":[{}]}', '"tool_calls"'),
	'|f|tool_call|executed');
text_is('fail_P14: broken off', message($text, '"error"'), '|f|incomplete_reply|executed');
text_is('fail_P14: an empty text is a text', message('{"content":""}', '"stop"'), '|t||executed');

is( outcome('refusal', q{try_chat('hostile/say', '[]'}, says(message('{"refusal":"I would\nrather not"}')),
		undef, '(o).error'),
	'call of model "hostile/say" on server "hostile" failed: the model refuses to answer: I would',
	'a refusal: the first line of its words are told');

# Without try_: an error of its own, or NULL; a setting accepts as the option does.
sub error_of { return InferTest::error($node, @_); }
my $cut = says(message($text, '"length"'));
like(error_of("SELECT infer.chat('hostile/say', '[]', '$cut')"),
	qr/RXTRC: .*ends at a limit of tokens.*HINT: .*"truncated": "accept"/s, 'truncated: an error that says what to do');
is(ask("SELECT infer.chat('hostile/say', '[]', '$cut', '{\"on_error\": \"null\"}') IS NULL"), 't',
	'truncated: on_error is obeyed');
is(ask("SET pg_inference.truncated = accept; SELECT infer.chat('hostile/say', '[]', '$cut')"),
	'some text', 'truncated: the setting accepts');

# In the mock's words: each fault is its row's.
$mock->set('defaults', 'tokens=4');
foreach my $enable (qw(on off))
{
	is( ask("SET pg_inference.enable = $enable;",
			q{SELECT string_agg(coalesce((o).reason, 'text'), ' ' ORDER BY i) FROM (SELECT i, infer.try_complete('c',
			i || (ARRAY['', '[[mock:cutoff]]', '[[mock:filtered]]', '[[mock:refusal]]', '[[mock:toolcall]]'])[i % 5 + 1]) AS o
			FROM generate_series(0, 9) i OFFSET 0) s}),
		'text truncated filtered refused tool_call text truncated filtered refused tool_call',
		"by row, enable $enable");
}

# A raw call is not interpreted: it is whole, whatever it says.
is( ask(qq{SELECT infer.call('hostile/', '{"model": "say", "hex": "@{[unpack('H*', message($text, '"length"'))]}"}')
		#>> '{choices,0,finish_reason}'}),
	'length', 'a raw answer is given as it is');

# ----------------------------------------------------------------------------------------------
# Tokens are counted whatever became of the answer.

foreach my $case (
	[ 'truncated', says(message($text, '"length"')), '7' ],
	[ 'misaligned text', says('{"choices":{},"usage":{"prompt_tokens":5,"completion_tokens":2}}'), '7' ],
	[ 'more behind it', says(message($text) . ' x'), '7' ],
	[ 'an error status', says('{"error":{"message":"x"},"usage":{"prompt_tokens":5,"completion_tokens":2}}', '500 No'), '7' ],
	[ 'a filter\'s refusal', says('{"error":{"code":"content_filter"},"usage":{"prompt_tokens":5}}', '400 No'), '5' ],
	[ 'an error without usage', says('{"error":{}}', '400 No'), undef ])
{
	my ($name, $parameters, $tokens) = @$case;
	my $said = outcome("usage, $name", q{try_chat('hostile/say', '[]'}, $parameters, undef,
		q{coalesce((o).usage ->> 'prompt_tokens', '0')::int + coalesce((o).usage ->> 'completion_tokens', '0')::int});
	is($said, $tokens // 0, "usage, $name: in the outcome");
	my $plan = ask("EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF)",
		"SELECT infer.try_chat('hostile/say', jsonb_build_array(i), '$parameters') FROM generate_series(1, 1) i");
	my ($in) = $plan =~ /Prompt Tokens: (\d+)/;
	my ($out) = $plan =~ /Completion Tokens: (\d+)/;
	is(($in // 0) + ($out // 0), $tokens // 0, "usage, $name: in EXPLAIN") or diag($plan);
	# a budget sees them: the next call of the statement is not made
	my $error = error_of("SET pg_inference.statement_token_budget = 5; SET pg_inference.enable = off;"
		. "SELECT (infer.try_chat('hostile/say', '[]', '$parameters')).reason; "
		. "DO \$\$ BEGIN PERFORM infer.try_chat('hostile/say', '[{\"n\": 1}]', '$parameters');"
		. "RAISE NOTICE 'second: %', (infer.try_chat('hostile/say', '[{\"n\": 2}]', '$parameters')).reason; END \$\$");
	like($error, $tokens ? qr/second: budget/ : qr/second: bad_request/, "usage, $name: in the budget");
}
is( outcome('a filter', q{try_chat('hostile/say', '[]'}, says('{"error":{"code":"content_filter","message":"no"}}', '400 No'),
		undef, '(o).reason, (o).execution'),
	'filtered|not_admitted', 'a request that a filter refuses was not executed');

unlike(PostgreSQL::Test::Utils::slurp_file($node->logfile),
	qr/PANIC|WARNING|terminated by signal/, 'the log has no complaint');
$node->stop;
done_testing();
