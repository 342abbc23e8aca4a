# Bytes that are no text, and databases in other encodings than UTF-8: each row has its text, its own
# clear failure, or, with invalid_text = replace, a replacement in it; with and without InferScan.
use strict;
use warnings;
use InferTest;
use InferHostile;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $mock = InferTest::Mock->new('reply=echo', 'dim=3');
my $hostile = InferHostile->new;
my $node = InferTest::new_node('text');
my ($mock_url, $hostile_url) = ($mock->url, $hostile->url);

my @encodings = qw(UTF8 LATIN1 SQL_ASCII EUC_JP);
foreach my $encoding (@encodings)
{
	$node->safe_psql('postgres',
		"CREATE DATABASE \L$encoding\E ENCODING '$encoding' TEMPLATE template0 LOCALE 'C'");
	$node->safe_psql(lc $encoding, qq{
		CREATE EXTENSION pg_inference;
		CREATE SERVER mock FOREIGN DATA WRAPPER pg_inference OPTIONS (url '$mock_url/v1');
		CREATE SERVER hostile FOREIGN DATA WRAPPER pg_inference OPTIONS (url '$hostile_url/v1');
		-- the bytes of a text, as they are stored
		CREATE FUNCTION bytes(text) RETURNS text LANGUAGE sql AS \$\$ SELECT encode(convert_to(\$1, getdatabaseencoding()), 'hex') \$\$;
	});
}

# What a query says, with and without InferScan, which must agree.
sub both
{
	my ($name, $database, $sql) = @_;
	my @said = map {
		my ($code, $out, $err) =
		  $node->psql(lc $database, "SET client_encoding = SQL_ASCII; SET pg_inference.enable = $_;\n$sql");
		$out . $err
	} qw(on off);
	is($said[1], $said[0], "$name: the same without InferScan");
	return $said[0];
}

# The outcomes of a call for the texts in an array (SQL), a line each: bytes, reason, execution.
sub outcomes
{
	my ($name, $database, $call, $texts) = @_;
	return both($name, $database,
		"SELECT bytes((o).value::text), (o).reason, (o).execution FROM (SELECT n, infer.$call AS o"
		  . " FROM unnest($texts) WITH ORDINALITY AS t(x, n) OFFSET 0) s ORDER BY n");
}

sub hex_of { return unpack('H*', $_[0]); }
sub says { my ($body, $status) = @_; return qq({"hex": "@{[hex_of($body)]}", "status": "@{[$status // '200 OK']}"}); }
sub answers { return says(InferHostile::completion($_[0])); }

my $replace = '{"invalid_text": "replace"}';
my $failed = '|malformed_reply|executed';
my $fffd = 'efbfbd';

# ----------------------------------------------------------------------------------------------
# There and back: a text in the database's encoding, and the same in UTF-8 as the server sees it.

my %word = (
	UTF8 => [ 'c3a9e697a5', "\xe9\x{65e5}" ],
	LATIN1 => [ 'e9fc', "\xe9\xfc" ],
	SQL_ASCII => [ 'c3a9e697a5', "\xe9\x{65e5}" ],
	EUC_JP => [ 'c6fccbdc', "\x{65e5}\x{672c}" ]);
foreach my $encoding (@encodings)
{
	my ($bytes, $characters) = @{ $word{$encoding} };
	my $text = "E'" . join('', map { "\\x$_" } $bytes =~ /../g) . "'";
	$mock->reset;
	is(outcomes("$encoding: complete", $encoding, "try_complete('mock/m', x)", "ARRAY[$text]"),
		"$bytes||executed", "$encoding: complete: the text comes back");
	is($mock->items->[0]{text}, $characters, "$encoding: complete: the server sees UTF-8");
	$mock->reset;
	is( outcomes("$encoding: chat", $encoding,
			q{try_chat('mock/m', jsonb_build_array(jsonb_build_object('role', 'user', 'content', x)))}, "ARRAY[$text]"),
		"$bytes||executed", "$encoding: chat: the text comes back");
	is($mock->items->[0]{text}, $characters, "$encoding: chat: the server sees UTF-8");
	$mock->reset;
	is( both("$encoding: embed", $encoding,
			"SELECT count(infer.embed('mock/m', x || $text)) FROM unnest(ARRAY['a', 'b']) AS x"),
		2, "$encoding: embed");
	is(join(' ', sort map { $_->{text} } @{ $mock->items }), "a$characters b$characters",
		"$encoding: embed: the server sees UTF-8");
	# the model's name, which the mock repeats; by name and by server/name
	$node->safe_psql(lc $encoding, "SET client_encoding = SQL_ASCII; SELECT infer.create_model($text, task => 'call', server => 'mock', remote_model => $text)");
	is( both("$encoding: model", $encoding, qq{SELECT bytes(infer.call(m, '{"input": "x"}'::jsonb || jsonb_build_object('model', $text),
			'{"path": "/embeddings"}') ->> 'model') FROM (VALUES ($text), ('mock/' || $text)) AS v(m)}),
		"$bytes\n$bytes", "$encoding: a model's name");
	# words of an error; an unknown model is named
	my $quoted = $characters;
	utf8::encode($quoted);
	my $said = both("$encoding: error", $encoding,
		"SELECT bytes((infer.try_complete('hostile/say', x, '@{[says(qq({\"error\":{\"message\":\"<$quoted>\"}}), '400 Bad')]}')).error) FROM unnest(ARRAY['a']) AS x");
	if ($encoding eq 'SQL_ASCII')
	{
		like($said, qr/^(?!.*$bytes)/, "$encoding: error texts show only ASCII");
	}
	else
	{
		like($said, qr/3c${bytes}3e/, "$encoding: error texts are readable");
	}
	my $unknown = both("$encoding: unknown", $encoding, "SELECT infer.embed($text || '!', 'x')");
	my $raw = pack('H*', $bytes);
	like($unknown, qr/model "$raw!" does not exist/, "$encoding: an unknown model is named");
	is(both("$encoding: refusal", $encoding, "SELECT (infer.try_chat('hostile/say', '[]', '@{[says(qq({\"choices\":[{\"message\":{\"refusal\":\"$quoted\"}}]}))]}')).reason"),
		'refused', "$encoding: a refusal in such words");
}

# ----------------------------------------------------------------------------------------------
# Inputs that cannot be said in UTF-8: their own failure, before anything is sent.

foreach my $case ([ SQL_ASCII => "E'bad \\xe9'", "bad \x{fffd}" ], [ EUC_JP => "E'bad \\xa9\\xa1'", "bad \x{fffd}" ])
{
	my ($encoding, $bad, $repaired) = @$case;
	my $texts = "ARRAY['good one', $bad, 'good two', $bad]";
	foreach my $call ("try_complete('mock/m', x)", "try_chat('mock/m', jsonb_build_array(jsonb_build_object('role', 'user', 'content', x)))")
	{
		$mock->reset;
		is(outcomes("fault_F70: $encoding: $call", $encoding, $call, $texts),
			join("\n", hex_of('good one') . '||executed', '|bad_request|not_admitted', hex_of('good two') . '||executed', '|bad_request|not_admitted'),
			"fault_F70: $encoding: $call: a bad input fails alone");
		is($mock->stat('requests'), 4, "fault_F70: $encoding: $call: and is not sent");
	}
	$mock->reset;
	is( both("fault_F70: $encoding: embed", $encoding,
			"SELECT count((o).value), count((o).error) FROM (SELECT infer.try_embed('mock/m', x) AS o FROM unnest($texts) AS x OFFSET 0) s"),
		'2|2', "fault_F70: $encoding: a bad input in a batch fails alone");
	like( both("fault_F70: $encoding: raised", $encoding, "SELECT infer.embed('mock/m', x) FROM unnest($texts) AS x"),
		qr/arguments make no valid request.*DETAIL: .*input is not valid.*Nothing was sent/s, "fault_F70: $encoding: the error says so");
	is( both("fault_F70: $encoding: cause", $encoding,
			"SELECT (infer.try_embed('mock/m', $bad)).reason; SELECT reason, input_md5 = md5($bad) FROM infer.statement_errors()"),
		"bad_request\nbad_request|t", "fault_F70: $encoding: its cause can be found by its bytes");
	is(both("fault_F70: $encoding: a row that nobody fetches", $encoding,
			"SELECT infer.complete('mock/m', x) FROM unnest($texts) AS x LIMIT 1"), 'good one',
		"fault_F70: $encoding: a row that LIMIT cuts off raises nothing");
	$mock->reset;
	is( both("fault_F70: $encoding: replaced", $encoding,
			"SELECT count(infer.embed('mock/m', x, options => '$replace')) FROM unnest($texts) AS x"),
		4, "fault_F70: $encoding: replaced, all are answered");
	is(join(', ', sort map { $_->{text} } @{ $mock->items }), "$repaired, good one, good two",
		"fault_F70: $encoding: replaced by U+FFFD");
}

# ----------------------------------------------------------------------------------------------
# Answers: what is no text, and what the encoding does not have.

my %has = (UTF8 => [ 'e697a5', $fffd ], LATIN1 => [ undef, '3f' ], SQL_ASCII => [ 'e697a5', $fffd ], EUC_JP => [ 'c6fc', '3f' ]);
foreach my $encoding (@encodings)
{
	my ($day, $mark) = @{ $has{$encoding} };
	foreach my $case (
		[ 'F68: NUL', '"a\\\\u0000b"', undef, "61${mark}62" ],
		[ 'F70: half a surrogate', '"a\\\\ud800b"', undef, "61${mark}62" ],
		[ 'F70: a byte of latin-1', "\"caf\xe9!\"", undef, "636166${mark}21" ],
		[ 'F70: a character', "\"\xe6\x97\xa5\"", $day, $day // '3f' ],
		[ 'F70: a character in an escape', '"\\\\u65e5"', $day, $day // '3f' ],
		[ 'F70: control characters', '"a\\\\u0001\\\\u007f\\\\t"', '61017f09', '61017f09' ])
	{
		my ($name, $json, $value, $repaired) = @$case;
		$json =~ s/\\\\/\\/g;
		$name = "fault_$name in $encoding";
		my $call = "try_complete('hostile/say', x, '@{[answers($json)]}'";
		is(outcomes($name, $encoding, "$call)", "ARRAY['x']"),
			defined $value ? "$value||executed" : $failed, $name);
		is(outcomes("$name, replaced", $encoding, "$call, '$replace')", "ARRAY['x']"),
			"$repaired||executed", "$name, replaced");
	}
	# raw answers: in keys and values
	my $body = qq({"k\\u0000": "\\ud800 \xff \xe6\x97\xa5 \\u65e5 \\u0041\\n"});
	my $raw = qq{jsonb_build_object('model', 'say', 'hex', '@{[hex_of($body)]}')};
	is( both("fault_F68: raw in $encoding", $encoding, "SELECT (infer.try_call('hostile/', $raw || jsonb_build_object('n', x))).reason FROM unnest(ARRAY[1]) x"),
		'malformed_reply', "fault_F68: a raw answer in $encoding fails alone");
	my $shown = $day // '3f';
	is( both("fault_F68: raw in $encoding, replaced", $encoding,
			"SELECT bytes(j.key), bytes(j.value) FROM (SELECT infer.call('hostile/', $raw, '$replace') AS v) s, jsonb_each_text(v) j"),
		"6b$mark|${mark}20${mark}20${shown}20${shown}20410a", "fault_F68: a raw answer in $encoding, replaced");
}

# A body that says what it is in: JSON is UTF-8 where it can be read as that, whatever its head says.
foreach my $case (
	[ 'latin-1 as announced', "caf\xe9", 'charset=ISO-8859-1', '636166c3a9' ],
	[ 'UTF-8, announced as latin-1', "caf\xc3\xa9", 'charset=iso-8859-1', '636166c3a9' ],
	[ 'latin-1, announced as UTF-8', "caf\xe9", 'charset=utf-8', undef ],
	[ 'latin-1, not announced', "caf\xe9", 'x=y', undef ])
{
	my ($name, $text, $charset, $bytes) = @$case;
	my $parameters = says(InferHostile::completion("\"$text\"")) =~ s/\}$/, "head": ["Content-Type: application\/json; $charset"]}/r;
	is(outcomes("fault_F70: $name", 'utf8', "try_complete('hostile/say', x, '$parameters')", "ARRAY['x']"),
		defined $bytes ? "$bytes||executed" : $failed, "fault_F70: $name");
}

# By row, with the setting; and what cannot be replaced stays a failure.
$mock->set('reply=words', 'tokens=1');
is( both('fault_F68: by row', 'utf8',
		q{SELECT string_agg(coalesce((o).reason, 'text'), ' ' ORDER BY n) FROM (SELECT n, infer.try_complete('mock/m',
		n || CASE n % 3 WHEN 1 THEN ' [[mock:nul]]' WHEN 2 THEN ' [[mock:latin1]]' ELSE '' END) AS o FROM generate_series(0, 5) n OFFSET 0) s}),
	'text malformed_reply malformed_reply text malformed_reply malformed_reply', 'fault_F68: each bad text is its row\'s failure');
is( both('fault_F68: the setting', 'utf8', q{SET pg_inference.invalid_text = replace;
		SELECT count(infer.complete('mock/m', n || ' [[mock:nul]]')), count(infer.complete('mock/m', n || ' [[mock:latin1]]')) FROM generate_series(1, 3) n}),
	'3|3', 'fault_F68: the setting replaces');
foreach my $case (
	[ 'a number beyond numeric', '{"a": 1e200000}' ],
	[ 'too deep', '[' x 300 . ']' x 300 ],
	[ 'binary rubbish', "\0\1\xff\xfe" ],
	[ 'latin-1 outside of strings', "{\"a\": \xe9}" ])
{
	my ($name, $body) = @$case;
	is( both("fault_F70: $name", 'utf8',
			"SELECT (infer.try_call('hostile/', jsonb_build_object('model', 'say', 'hex', '@{[hex_of($body)]}', 'n', x), '$replace')).reason FROM unnest(ARRAY[1]) x"),
		'malformed_reply', "fault_F70: $name: is a failure");
}

unlike(PostgreSQL::Test::Utils::slurp_file($node->logfile),
	qr/PANIC|WARNING|terminated by signal/, 'the log has no complaint');
$node->stop;
done_testing();
