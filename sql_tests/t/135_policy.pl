# What a failure does to its statement, and what is left to read of it: by policy, one line of
# bounded length that never holds a key, of an input and no other.
use strict;
use warnings;
use InferTest;
use InferHostile;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $mock = InferTest::Mock->new;
my $hostile = InferHostile->new;
my $hostile_url = $hostile->url;
my $node = InferTest::new_node('policy', 'pg_inference.failure_threshold = 0');
InferTest::connect_mock($node, $mock);
my $database = 'postgres';
sub ask { return $node->safe_psql($database, join("\n", @_)); }
ask("CREATE SERVER hostile FOREIGN DATA WRAPPER pg_inference OPTIONS (url '$hostile_url/v1')");

# ----------------------------------------------------------------------------------------------
# fault_F62: one bad row in 10,000.

ask(q{CREATE TABLE rows AS SELECT i AS id, 'text ' || i || CASE WHEN i = 7777 THEN ' [[mock:400]]' ELSE '' END AS x
	FROM generate_series(1, 10000) AS i});
$mock->reset;
is(ask(q{SET pg_inference.on_error = 'null';
	SELECT count(e), count(*) FILTER (WHERE e IS NULL), min(id) FILTER (WHERE e IS NULL)
	FROM (SELECT id, infer.embed('m', x, '{"dimensions": 2}') AS e FROM rows) s;
	SELECT sum(calls), min(reason), count(r.id) FROM infer.statement_errors() LEFT JOIN rows r ON md5(x) = input_md5}),
	"9999|1|7777\n1|bad_request|1", 'fault_F62: null: 9,999 results, and which one is missing');
is($mock->stat('items'), 9999, 'fault_F62: nothing is asked twice');
is(ask(q{SELECT count((o).value), count((o).error), min(id) FILTER (WHERE (o).error IS NOT NULL), min((o).reason)
	FROM (SELECT id, infer.try_embed('m', x, '{"dimensions": 2}') AS o FROM rows) s}),
	'9999|1|7777|bad_request', 'fault_F62: outcome: 9,999 results and one error');
my ($code, $out, $err) = $node->psql('postgres', q{
	\set FETCH_COUNT 100
	\set VERBOSITY verbose
	SELECT id, infer.embed('m', x, '{"dimensions": 2}') IS NOT NULL FROM rows});
like($err, qr/RNBAD/, 'fault_F62: fail: the row raises');
like($out, qr/^7700\|t$/m, 'fault_F62: fail: rows well before it have been returned');
unlike($out, qr/^7777\|/m, 'fault_F62: fail: it has not');

# Answers that cannot be matched to their rows fail the query, whatever the policy.
foreach my $call (
	q{infer.embed('m', i::text || '[[mock:dupindex]]')},
	q{infer.embed('m', i::text || '[[mock:dupindex]]', options => '{"on_error": "null"}')},
	q{(infer.try_embed('m', i::text || '[[mock:dupindex]]')).error})
{
	foreach my $enable (qw(on off))
	{
		(undef, $out, $err) = $node->psql('postgres', qq{
			\\set VERBOSITY verbose
			SET pg_inference.enable = $enable;
			SELECT $call FROM generate_series(1, 3) AS i;
			SELECT DISTINCT sqlstate FROM infer.statement_errors()}, on_error_stop => 0);
		# alone, an answer cannot be mistaken for another's
		$enable eq 'on' ? like($err, qr/RXALN/, "misaligned: raised by $call")
		  : unlike($err, qr/RXALN/, "... not without InferScan");
		is($out, 'RXALN', 'misaligned: is a cause as any other') if $enable eq 'on';
	}
}

# ----------------------------------------------------------------------------------------------
# fault_F78: a failed handshake is told from the failures of 020_delivery.pl (of a server that does
# not speak TLS; other kinds are those of 160_tls.pl).

ask(qq{CREATE SERVER tls FOREIGN DATA WRAPPER pg_inference OPTIONS (url '@{[$mock->url =~ s/^http/https/r]}/v1')});
is(ask(q{SET pg_inference.connect_timeout = '2s'; SET pg_inference.max_attempts = 1;
	SELECT o.reason, o.execution FROM infer.try_complete('tls/m', 'x') AS o;
	SELECT sqlstate, server, execution, error <> '' FROM infer.statement_errors()}),
	"tls_failed|not_admitted\nRNTLS|tls|not_admitted|t", 'fault_F78: a failed handshake has its own SQLSTATE');

# ----------------------------------------------------------------------------------------------
# What is said of a failure is one line of at most 256 bytes, cut between characters.

# Parameters that make the hostile server refuse with these words.
sub refuses
{
	my ($words, $status) = @_;
	my $hex = unpack('H*', qq({"error":{"message":"$words"}}));
	return qq({"hex": "$hex", "status": "@{[$status // '400 Bad']}"});
}

# The words that are kept, and whether all that is shown of them is fit to be.
sub words_of
{
	my ($words, $status) = @_;
	my $parameters = refuses($words, $status);
	my ($outcome, $cause) = split /\n/, ask(
		"SELECT (o).error FROM (SELECT infer.try_chat('hostile/say', '[]', '$parameters') AS o) s;",
		'SELECT error, octet_length(error) <= 256, error !~ \'[[:cntrl:]]\' FROM infer.statement_errors()');
	$cause =~ s/\|t\|t$// or fail("fit to be shown: $cause");
	is(substr($outcome, -length $cause), $cause, 'the outcome says the same');
	return $cause;
}

is(words_of('short'), 'short', 'short words are whole');
foreach my $case ([ 'a', 1 ], [ "\xc3\xbc", 2 ], [ "\xe2\x82\xac", 3 ], [ "\xf0\x9f\x98\x80", 4 ])
{
	my ($char, $bytes) = @$case;
	foreach my $before (0 .. 3)
	{
		my $kept = words_of('x' x $before . $char x 300);
		like($kept, qr/^x{$before}(?:\Q$char\E)*(?:\.\.\. \(truncated\))?$/, "$before bytes, then characters of $bytes: cut between them");
		cmp_ok(length $kept, '>', 256 - 8, '... and no earlier than it must');
	}
}
is(words_of('a\n\tb\u0000\u001b[31m'), words_of('a'), 'control characters are none');

# ... and never holds a key, also if the server repeats half of it.
my $key_file = PostgreSQL::Test::Utils::tempdir . '/policy.key';
append_to_file($key_file, 'sk-policy-Ohng2Eeshae5');
ask("CREATE USER MAPPING FOR PUBLIC SERVER hostile OPTIONS (api_key_file '$key_file')");
foreach my $mode (qw(error_key error_half_key))
{
	my $told = ask("SELECT count(infer.complete('hostile/$mode', 'x', options => '{\"on_error\": \"null\"}'));",
		'SELECT error FROM infer.statement_errors()');
	like($told, qr/^0\n(?:x{235} \*+|bad key )/, "$mode: the words are kept");
	unlike($told, qr/sk-p/, "$mode: the key is not");
}

# In a database that is not in UTF-8: words in its encoding, and inputs by the MD5 of their UTF-8.
foreach my $case ([ LATIN1 => "\xfc", qr/^\?+ \xfc broken$/ ], [ SQL_ASCII => "\xc3\xbc", qr/^[?]+ [?]+ broken$/ ])
{
	my ($encoding, $u, $wanted) = @$case;
	my $hex = unpack 'H*', qq({"error":{"message":"\xe6\x97\xa5 \xc3\xbc broken"}});
	my $input = unpack 'H*', "$u [[mock:404]]";
	$database = 'postgres';
	ask("CREATE DATABASE \"db_$encoding\" ENCODING $encoding LOCALE 'C' TEMPLATE template0");
	$database = "db_$encoding";
	ask('CREATE EXTENSION pg_inference;', "CREATE SERVER mock FOREIGN DATA WRAPPER pg_inference OPTIONS (url '@{[$mock->url]}/v1');",
		"CREATE SERVER hostile FOREIGN DATA WRAPPER pg_inference OPTIONS (url '$hostile_url/v1')");
	my ($error, $same) = split /\n/, ask(
		qq{SELECT FROM infer.try_chat('hostile/say', '[]', '{"hex": "$hex", "status": "400 Bad"}');
		SELECT encode(convert_to(error, '$encoding'), 'hex') FROM infer.statement_errors();
		SELECT FROM infer.try_complete('mock/m', convert_from('\\x$input', '$encoding'));
		SELECT input_md5 = md5('\\xc3bc'::bytea || ' [[mock:404]]'::bytea) FROM infer.statement_errors()});
	like(pack('H*', $error), $wanted, "$encoding: words in its encoding");
	is($same, 't', "$encoding: the input is found by its MD5");
}

done_testing();
