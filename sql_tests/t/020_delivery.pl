# Each request is transmitted once, each answer reaches its own row, and what cannot be right is an
# error that says what and where.
use strict;
use warnings;
use InferTest;
use InferProc;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $folder = PostgreSQL::Test::Utils::tempdir;
my $slow_dns = InferProc::build_slow_dns($folder);
my $mock = InferTest::Mock->new;
my $node;
{
	local $ENV{LD_PRELOAD} = $slow_dns;
	# faults in a row are what this test is made of; after three of them the server would be left alone
	$node = InferTest::new_node('delivery', 'pg_inference.failure_threshold = 0');
}
InferTest::connect_mock($node, $mock, max_concurrency => 8);
my $url = $mock->url;

# Prepares the mock; settings as for $mock->set.
sub given
{
	$mock->set('defaults', @_);
	$mock->reset;
	return;
}

sub ask { return $node->safe_psql('postgres', join("\n", @_)); }

# What a statement raises: its SQLSTATE and everything it says.
sub error_of
{
	my ($sql) = @_;
	my (undef, undef, $err) = $node->psql('postgres', "\\set VERBOSITY verbose\n$sql");
	my ($state) = $err =~ /ERROR:  (\w{5}): /;
	return ($state // '', $err);
}

# ----------------------------------------------------------------------------------------------
# fail_P5: the server does the work and closes a connection that was used before, without a byte.
# The HTTP library would send such a request again on a new connection.

given('fault_die=100');
my ($out, $err) = InferProc->start($node, 'die',
	join("\n", map { "SELECT 'answered', infer.embed('m', 'text $_') IS NOT NULL;" } 1 .. 20))
  ->finish;
my $answered = () = $out =~ /^answered\|t$/mg;
my $lost = () = $err =~ /ERROR:  RMDIS: /g;
my $stats = $mock->stats;
is($stats->{requests}, 20, 'fail_P5: every request is seen once (one by one)');
is($stats->{items}, 20, 'fail_P5: and executed');
is($stats->{duplicate_items}, 0, 'fail_P5: none is seen again');
is($answered + $lost, 20, 'fail_P5: each is answered, or may have been executed');
cmp_ok($lost, '>=', 5, 'fail_P5: connections were reused');

given('fault_die=100');
my $result = ask(
	q{SET pg_inference.streaming_mode = per_row;},
	q{SELECT count((o).value), count(*) FILTER (WHERE (o).execution = 'maybe_executed'
		AND (o).attempts = 1 AND (o).reason = 'disconnected')
	FROM (SELECT infer.try_embed('m', 'row ' || i) AS o FROM generate_series(1, 200) i OFFSET 0) s});
my ($good, $bad) = split /\|/, $result;
$stats = $mock->stats;
is($stats->{requests}, 200, 'fail_P5: every request is seen once (many at a time)');
is($stats->{duplicate_items}, 0, 'fail_P5: none is seen again');
is($good + $bad, 200, 'fail_P5: each is answered, or may have been executed');
cmp_ok($bad, '>=', 50, 'fail_P5: connections were reused');

# who allows it gets a second transmission, and the mock notices
given('fault_die=100');
ask(q{SELECT infer.embed('m', 'first');}, q{SET pg_inference.retry = ambiguous;},
	q{SELECT infer.embed('m', 'second');});
cmp_ok($mock->stat('duplicate_items'), '>=', 1, 'fail_P5: what is repeated would be noticed');

# ----------------------------------------------------------------------------------------------
# fault_F46: nobody gets what belongs to another row or another statement.

given('reply=echo', 'base_ms=3', 'jitter=1', 'slots=8', 'queue=100000');
my @scripts = map {
	qq{SET pg_inference.streaming_mode = per_row;
	SELECT 'rows', count(*), count(*) FILTER (WHERE answer = prompt)
	FROM (SELECT prompt, infer.complete('c', prompt) AS answer
		FROM (SELECT 'token-$_-' || i AS prompt FROM generate_series(1, 50) i) p OFFSET 0) s;}
} 1 .. 16;
my @results = InferProc::run_all($node, 'token', @scripts);
is(scalar(grep { $_->[0] =~ /^rows\|50\|50$/m && $_->[1] eq '' } @results),
	16, 'fault_F46: sixteen statements get their own answers')
  or diag(map { join '', @$_ } @results);
is($mock->stat('items'), 800, 'fault_F46: each from the server');
is($mock->stat('duplicate_items'), 0, 'fault_F46: asked once');

# batches with their answers in reverse order, several statements at a time
given('fault_order=100', 'base_ms=3', 'jitter=1', 'dim=8');
ask('CREATE TABLE shuffled (who int, x text, e real[])');
@scripts = map {
	qq{SET pg_inference.dispatch_batch_size = 7;
	INSERT INTO shuffled SELECT $_, x, infer.embed('m', x)
	FROM (SELECT 'shuffled-$_-' || i AS x FROM generate_series(1, 50) i) s;}
} 1 .. 16;
@results = InferProc::run_all($node, 'shuffle', @scripts);
is(join('', map { $_->[1] } @results), '', 'fault_F46: shuffled answers raise nothing');
cmp_ok($mock->stat('faults'), '>=', 16 * 7, 'fault_F46: answers were shuffled');
given('dim=8');
is( ask(q{SET pg_inference.enable = off;
		SELECT count(*), count(*) FILTER (WHERE e IS DISTINCT FROM infer.embed('m', x))
		FROM shuffled}),
	'800|0', 'fault_F46: each row has the vector of its own text');

# ----------------------------------------------------------------------------------------------
# fault_F90: answers that are out of order, doubled, out of range, missing, without their number.

sub embed_ten
{
	return q{SELECT count(*), count((o).value),
		coalesce(string_agg((o).reason || ' ' || (o).execution || ' ' || i, ', '), '-')
	FROM (SELECT i, infer.try_embed('m', 'ten ' || i) AS o FROM generate_series(0, 9) i OFFSET 0) s};
}

sub right_rows
{
	my ($fault) = @_;
	given('dim=8');
	my $wanted = ask(q{SELECT string_agg(infer.embed('m', 'ten ' || i)::text, ' ')
		FROM generate_series(0, 9) i});
	given('dim=8', "fault_$fault=100");
	my $found = ask(q{SELECT string_agg((infer.try_embed('m', 'ten ' || i)).value::text, ' ')
		FROM generate_series(0, 9) i});
	return ($found, $wanted);
}

is($_->[0], $_->[1], 'fault_F90: reverse order: each row has its own vector')
  foreach [ right_rows('order') ];
is($_->[0], $_->[1], 'fault_F90: no numbers, right count: taken in order')
  foreach [ right_rows('noindex') ];

foreach my $case (
	[ dupindex => 'a number twice', qr/two answers have the index 0/ ],
	[ negindex => 'number -1', qr/index that is no number from 0 to 9/ ],
	[ badindex => 'a number too large', qr/index that is no number from 0 to 9/ ],
	[ someindex => 'numbers in some answers only', qr/answers have no index/ ],
	[ noindexshort => 'no numbers, one missing', qr/9 answers without an index for 10 inputs/ ])
{
	my ($fault, $name, $detail) = @$case;
	given('dim=8', "fault_$fault=100");
	my ($state, $said) =
	  error_of(q{SELECT infer.embed('m', 'ten ' || i) FROM generate_series(0, 9) i});
	is($state, 'RXALN', "fault_F90: $name: cannot be matched, so the statement fails");
	like($said, $detail, "fault_F90: $name: the error says why");
	like($said, qr/server "mock"/, "fault_F90: $name: and where");
	is($mock->stat('requests'), 1, "fault_F90: $name: is not asked again");
}

given('dim=8', 'fault_missing3=100');
is(ask(embed_ten()), '10|9|missing_result executed 3',
	'fault_F90: number 3 is missing: that row fails, the others stand');
my ($state, $said) =
  error_of(q{SELECT infer.embed('m', 'ten ' || i) FROM generate_series(0, 9) i});
is($state, 'RXMIS', 'fault_F90: number 3 is missing: raised where not caught');

# ----------------------------------------------------------------------------------------------
# fault_F91: redirects are not followed, endless bodies not swallowed.

my $other = InferTest::Mock->new;
given('fault_redirect=100', 'redirect_to=' . $other->url . '/v1/embeddings');
my $connections = $other->stat('connections');
($state, $said) = error_of(q{SELECT infer.embed('m', 'redirected')});
is($state, 'RNRED', 'fault_F91: a redirect is an error');
like($said, qr/server "mock".*redirect/, 'fault_F91: that says so');
is($other->stat('connections'), $connections + 1, 'fault_F91: the other place sees nobody');
is($other->stat('requests'), 0, 'fault_F91: and no request');

given('fault_big=100', 'big_kb=' . 5 * 1024 * 1024);
my $peak = q{SELECT 'peak', (regexp_match(pg_read_file('/proc/self/status'), 'VmHWM:\s+(\d+)'))[1];};
foreach my $cap (1, 64)
{
	foreach my $enable (qw(on off))
	{
		($out, $err) = InferProc->start(
			$node, 'big', qq{SET pg_inference.max_response_size = '${cap}MB';
			SET pg_inference.enable = $enable;
			SELECT infer.try_embed('m', 'small [[mock:close]] $cap $enable') IS NULL;
			$peak
			SELECT infer.embed('m', 'big $cap $enable ' || i) FROM generate_series(1, 1) i;
			$peak})->finish;
		my ($before, $after) = $out =~ /^peak\|(\d+)$/mg;
		my $growth = ($after // 1e9) - ($before // 0);
		like($err, qr/ERROR:  R[XM]RPL: .*server "mock"/,
			"fault_F91: an answer of 5 GB is too large for $cap MB ($enable)");
		note("fault_F91: memory grew by $growth kB");
		cmp_ok($growth, '<', ($cap + 16) * 1024, "fault_F91: memory stays within it ($enable)");
	}
}
cmp_ok($mock->stat('bytes_out'), '<', 1024 * 1024 * 1024, 'fault_F91: the rest is not read');
is($mock->open_connections, 0, 'fault_F91: the connection is closed');

# ----------------------------------------------------------------------------------------------
# fault_F78: five failures that one can tell apart, each with its server and status.

ask(qq{CREATE SERVER unknown FOREIGN DATA WRAPPER pg_inference OPTIONS (url 'http://fail.test/v1');
	CREATE SERVER closed FOREIGN DATA WRAPPER pg_inference OPTIONS (url 'http://127.0.0.1:1/v1')});
my %seen;
foreach my $case (
	[ 401 => 'mock', 'RNAUT', 1 ],
	[ 404 => 'mock', 'RNNFD', 1 ],
	[ 429 => 'mock', 'RNOVL', 2 ],
	[ 500 => 'mock', 'RMSRV', 1 ],
	[ name => 'unknown', 'RNDNS', 0 ],
	[ connect => 'closed', 'RNCON', 0 ])
{
	my ($what, $server, $wanted, $requests) = @$case;
	given('retry_after=0', $what =~ /\d/ ? "fault_$what=100" : 'base_ms=0');
	($state, $said) = error_of(qq{SET pg_inference.max_attempts = 2;
		SELECT infer.embed('$server/model', 'failure $what')});
	is($state, $wanted, "fault_F78: $what: has its own SQLSTATE");
	like($said, qr/server "$server"/, "fault_F78: $what: names the server");
	like($said, qr/HTTP status $what/, "fault_F78: $what: tells the status") if $what =~ /\d/;
	like($said, qr/HINT:  /, "fault_F78: $what: says what to do");
	is($mock->stat('requests'), $requests, "fault_F78: $what: as many requests as it should");
	$seen{$state} = 1;
}
is(scalar(keys %seen), 6, 'fault_F78: all of them different');

# ----------------------------------------------------------------------------------------------
# fault_F70: bytes that are no UTF-8 are the matter of one row.

foreach my $case ([ latin1 => 'text that is not UTF-8' ], [ binary => 'a body that is not text' ])
{
	my ($fault, $name) = @$case;
	given('reply=echo');
	$result = ask(
		qq{SELECT string_agg(coalesce((o).value, (o).reason || ' ' || (o).execution), ', ' ORDER BY i)
		FROM (SELECT i, infer.try_complete('c', CASE i WHEN 2 THEN '[[mock:$fault]]' ELSE 'row ' || i END)
			AS o FROM generate_series(1, 3) i OFFSET 0) s});
	my $wrong = $fault eq 'latin1' ? qr/malformed_reply executed|caf.* \[\[mock:latin1\]\]/
	  : qr/malformed_reply executed/;
	like($result, qr/^row 1, $wrong, row 3$/, "fault_F70: $name: one row is concerned");
	($state, $said) = error_of(qq{SELECT infer.complete('c', '[[mock:$fault]]')});
	isnt($state, '22021', "fault_F70: $name: is no error of the database's encoding");
}

# ----------------------------------------------------------------------------------------------
# fault_F71: one answer, however it is packed.

my %text;
foreach my $packing ([], ['chunked=1'], ['gzip=1'], [ 'chunked=1', 'gzip=1' ])
{
	given('tokens=2000', 'dim=300', @$packing);
	my $name = join(' ', @$packing) || 'plain';
	my $words = ask(q{SELECT infer.complete('c', 'packing', '{"max_tokens": 2000}');});
	my $vector = ask(q{SELECT infer.embed('m', 'packing');});
	cmp_ok(length $words, '>', 5000, "fault_F71: $name: a long text arrives");
	$text{"$words $vector"} .= " $name";
}
is(scalar(keys %text), 1, 'fault_F71: the same in every packing')
  or diag(join(' /', values %text));

$node->stop;
done_testing();
