# Memory that is not there when a request is being made: the error is the statement's, and what it had
# taken comes back, also when a block catches it. Nothing is sent, and what was asked can be asked again.
use strict;
use warnings;
use InferTest;
use InferProc;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

# The list of a request's inputs has sixteen bytes for each; nothing else has just this size.
my $rows = 2001;
my $folder = PostgreSQL::Test::Utils::tempdir;
my $file = "$folder/no_memory";
my $mock = InferTest::Mock->new('dim=2');
my $node;
{
	local $ENV{LD_PRELOAD} = InferProc::build_preload($folder, 'no_memory');
	local $ENV{NO_MEMORY_FILE} = $file;
	local $ENV{NO_MEMORY_FROM} = 16 * $rows;
	local $ENV{NO_MEMORY_TO} = 16 * $rows + 128;
	$node = InferTest::new_node('no_memory', 'pg_inference.streaming_mode = batch');
}
InferTest::connect_mock($node, $mock, max_batch_size => 2048);

my $ask = "count(infer.embed('m', 'text ' || i)) FROM generate_series(1, $rows) AS i";
my ($out, $err) = InferProc->start($node, 'caught', qq{
	SET statement_timeout = '60s';
	DO \$\$
	DECLARE found int;
	BEGIN
		COPY (SELECT 1) TO '$file';
		BEGIN
			SELECT $ask INTO found;
		EXCEPTION WHEN out_of_memory THEN
			RAISE NOTICE 'caught';
		END;
		RAISE NOTICE 'in flight: %, retained: %', (SELECT sum(in_flight) FROM infer.stat_admission), infer.retained_bytes();
		COPY (SELECT 1) TO PROGRAM 'rm $file';
		SELECT $ask INTO found;
		RAISE NOTICE 'found: %', found;
	END \$\$;})->finish;
like($err, qr/NOTICE:  \w+: caught/, 'there is no memory');
like($err, qr/NOTICE:  \w+: in flight: 0, retained: 0/, 'what it had taken is back');
like($err, qr/NOTICE:  \w+: found: $rows/, 'what it had asked is asked again');
unlike($err, qr/ERROR|connection/, 'no other error');
is($mock->stat('requests'), 1, 'nothing was sent before');

$node->stop;
done_testing();
