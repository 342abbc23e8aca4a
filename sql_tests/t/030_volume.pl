# Ten thousand real texts, and many calls in one backend: right results, each distinct input asked
# once, few requests, few connections, flat memory, no more evaluations than the query needs.
# PG_INFERENCE_LONG=1 makes a million calls where otherwise fifty thousand do.
use strict;
use warnings;
use File::Basename qw(dirname);
use File::Spec;
use InferTest;
use InferProc;
use List::Util qw(min);
use POSIX qw(ceil);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $batch = 100;
my $mock = InferTest::Mock->new;
my $node = InferTest::new_node(
	'volume',
	'max_parallel_workers_per_gather = 0',
	# where a tenth of the calls fail, three in a row do now and then: that is to be gone through
	# often, and not to be waited for
	'pg_inference.failure_cooldown = 1',
	'jit = off');    # what it allocates is not ours
InferTest::connect_mock($node, $mock, max_concurrency => 16, max_batch_size => $batch);

my $file = File::Spec->rel2abs(dirname(__FILE__) . '/../data/packages.tsv');
$node->safe_psql(
	'postgres', qq{
	CREATE TABLE packages (id serial PRIMARY KEY, name text, section text, descr text);
	COPY packages (name, section, descr) FROM '$file';
	ANALYZE packages;
});
my ($rows, $distinct) = split /\|/,
  $node->safe_psql('postgres', 'SELECT count(*), count(DISTINCT descr) FROM packages');
cmp_ok($rows, '>=', 10_000, 'ten thousand rows of real text');
cmp_ok($distinct, '<', $rows, 'some of them twice');
my $least = ceil($distinct / $batch);

# How many rows of the table differ from one direct call each, asked anew?
sub wrong_rows
{
	my ($table, $where) = @_;
	return $node->safe_psql(
		'postgres', qq{
		SET pg_inference.enable = off;
		SELECT count(*) FILTER (WHERE e IS DISTINCT FROM infer.embed('m', descr)),
			count(*) FILTER (WHERE e IS NOT NULL)
		FROM packages LEFT JOIN $table USING (id) WHERE $where});
}

# Fills a table in the given mode; checks the server's ledger and all of the results.
sub test_fill
{
	my ($name, $settings, $most) = @_;
	$mock->reset;
	$node->safe_psql(
		'postgres', qq{$settings;
		DROP TABLE IF EXISTS embedded;
		CREATE TABLE embedded AS SELECT id, infer.embed('m', descr) AS e FROM packages});
	my $stats = $mock->stats;
	is($stats->{duplicate_items}, 0, "$name: no input was asked twice");
	is($stats->{items}, $distinct, "$name: every distinct input was asked");
	cmp_ok($stats->{requests}, '>=', $least, "$name: batches keep the server's limit");
	cmp_ok($stats->{requests}, '<=', $most, "$name: few requests");
	note("$name: $stats->{requests} requests for $distinct distinct inputs");
	cmp_ok($stats->{max_in_flight}, '<=', 16, "$name: within the server's concurrency");
	is(wrong_rows('embedded', 'true'),
		"0|$rows", "$name: every row equals a direct call for its text");
	return;
}

$mock->set('dim=64');
test_fill('batch', 'SET pg_inference.streaming_mode = batch', $least);

# The window doubles from one batch on: a short batch each time it grows, and for a full pipe.
my $ramp = 16;
test_fill('automatic', 'SET pg_inference.streaming_mode = automatic', 1.1 * $least + $ramp);

# With vectors as long as they usually are, remembering all answers takes more memory.
$mock->set('dim=1536');
test_fill('1536 dimensions', q{SET pg_inference.memo_memory = '128MB'}, 1.1 * $least + $ramp);

# The comparison itself can tell a wrong row.
$node->safe_psql(
	'postgres', q{
	UPDATE embedded SET e = (SELECT e FROM embedded WHERE id = 1) WHERE id = 2});
is(wrong_rows('embedded', 'id <= 500'), '1|500', 'a wrong row would be seen');

# fault_F47: no rewrite, no setting.
$mock->set('dim=64');
$mock->reset;
$node->safe_psql('postgres', q{SELECT infer.embed('m', descr) FROM packages});
cmp_ok($mock->stat('requests'), '<=', ceil($rows / $batch),
	'fault_F47: no more requests than full batches need');

# fault_F74: calls one after the other share a connection.
$mock->set('defaults', 'dim=4');
$mock->reset;
$node->safe_psql(
	'postgres', q{
	SET pg_inference.enable = off;
	SELECT count(infer.embed('m', 'call ' || i)) FROM generate_series(1, 20000) i});
is($mock->stat('requests'), 20_000, 'fault_F74: twenty thousand calls, one by one');
my @used = @{ $mock->connections };
note('fault_F74: ' . @used . ' connections');
cmp_ok(scalar(@used), '<=', 4, 'fault_F74: share few connections');

# fault_F37, fault_F73: a backend that made many calls, a tenth of them failing, is as small as
# before. Three ways: raising ones under PL/pgSQL's subtransactions, outcomes in a function's body,
# outcomes in a scan.
my $round = 5000;
my $rounds = $ENV{PG_INFERENCE_LONG} ? 200 : 10;
$mock->set('defaults', 'dim=16', 'fault_500=6', 'fault_reset=2', 'fault_json=2');
$mock->reset;

my $memory = q{SELECT 'rss', (regexp_match(pg_read_file('/proc/self/status'), 'RssAnon:\s+(\d+)'))[1];};
my %way = (
	raising => sub {
		qq{DO \$\$
		DECLARE
			good int := 0; bad int := 0;
		BEGIN
			FOR i IN 1..$round LOOP
				BEGIN
					PERFORM infer.embed('m', 'raising $_[0] ' || i);
					good := good + 1;
				EXCEPTION WHEN OTHERS THEN
					bad := bad + 1;
				END;
			END LOOP;
			RAISE NOTICE 'good %, bad %', good, bad;
		END \$\$;}
	},
	outcome => sub {
		qq{SET pg_inference.enable = off;
		SELECT 'good', count((o).value), 'bad', count((o).error)
		FROM (SELECT infer.try_embed('m', 'outcome $_[0] ' || i) AS o
			FROM generate_series(1, $round) i OFFSET 0) s;
		RESET pg_inference.enable;}
	},
	scan => sub {
		qq{SET pg_inference.streaming_mode = per_row;
		SELECT 'good', count((o).value), 'bad', count((o).error)
		FROM (SELECT infer.try_embed('m', 'scan $_[0] ' || i) AS o
			FROM generate_series(1, $round) i OFFSET 0) s;
		RESET pg_inference.streaming_mode;}
	});
foreach my $way (sort keys %way)
{
	my $warm = 3;
	my $script = $memory . join('', map { $way{$way}->("warm $_") } 1 .. $warm) . $memory
	  . join('', map { $way{$way}->($_) . $memory } 1 .. $rounds);
	$mock->reset;
	my ($out, $err) = InferProc->start($node, "leak $way", $script)->finish(7200);
	unlike($err, qr/ERROR/, "fault_F73: $way: runs");
	my ($calls, $failed) = (0, 0);
	my $said = $out . $err;
	while ($said =~ /good\|?\s?(\d+)(?:\||, )bad\|?\s?(\d+)/g)
	{
		$calls += $1 + $2;
		$failed += $2;
	}
	is($calls, $round * ($warm + $rounds), "fault_F73: $way: every call ended");
	is($mock->stat('requests'), $calls, "fault_F73: $way: each was one request");
	cmp_ok($failed, '>', $calls * 0.07, "fault_F73: $way: a tenth of them failed");
	cmp_ok($failed, '<', $calls * 0.13, "fault_F73: $way: but not more");
	# the allocator gives back at times of its own: the least of several figures is what is kept
	my ($idle, @kept) = $out =~ /^rss\|(\d+)$/mg;
	is(scalar(@kept), $rounds + 1, "fault_F37: $way: measured");
	my $before = min(@kept[ 0 .. 4 ]);
	my $growth = min(@kept[ -5 .. -1 ]) - $before;
	note(sprintf "%s: %+d kB in the warm-up, %+d kB in %d calls", $way, $before - $idle, $growth,
		$round * $rounds);
	cmp_ok($before - $idle, '<', 64 * 1024, "fault_F37: $way: memory is small");
	cmp_ok($growth, '<', 1024, "fault_F37: $way: memory does not grow");
}

# fault_F85: evaluated once, however often the query names it.
$mock->set('defaults');
$node->safe_psql('postgres',
	q{CREATE TABLE hundred AS SELECT 'text ' || i AS x FROM generate_series(1, 100) i});
my %query = (
	'three mentions' => q{SELECT infer.complete('c', x) FROM hundred WHERE infer.complete('c', x) <> ''
		ORDER BY infer.complete('c', x)},
	'fields of one outcome' => q{SELECT (infer.try_complete('c', x)).* FROM hundred});
foreach my $name (sort keys %query)
{
	foreach my $enable (qw(on off))
	{
		$mock->reset;
		my @result = split /\n/,
		  $node->safe_psql('postgres', "SET pg_inference.enable = $enable; $query{$name}");
		my $stats = $mock->stats;
		is(scalar(@result), 100, "fault_F85: $name ($enable): has its rows");
		is($stats->{requests}, 100, "fault_F85: $name ($enable): one request for each text")
		  or diag("$stats->{items} items");
	}
}

$node->stop;
done_testing();
