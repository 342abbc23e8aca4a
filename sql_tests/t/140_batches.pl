# Refused batches: what was too large is cut, the size is remembered for all sessions, one bad input
# fails alone and teaches nothing, and nothing that was answered is sent again.
use strict;
use warnings;
use InferTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $mock = InferTest::Mock->new;
my $node = InferTest::new_node('batches');
InferTest::connect_mock($node, $mock);
my $url = $mock->url;

# What was learnt belongs to a version of the server object: each part begins with a fresh one.
sub given
{
	my ($options, @settings) = @_;
	$node->safe_psql('postgres', qq{DROP SERVER IF EXISTS s;
		CREATE SERVER s FOREIGN DATA WRAPPER pg_inference OPTIONS (url '$url/v1', admission_key 's'$options)});
	$mock->set('defaults', 'dim=4', @settings);
	$mock->reset;
	return;
}

sub ask { return $node->safe_psql('postgres', join("\n", @_)); }

# Embeds so many texts; says how many rows have a vector, and how many have none.
sub embed
{
	my ($n, $text, $options) = @_;
	$text //= "'text ' || 10000 + i";
	return ask("SELECT count((o).value), count((o).error) FROM (SELECT infer.try_embed('s/m', $text, '{}', '@{[$options // '{}']}') AS o",
		"FROM generate_series(1, $n) i OFFSET 0) s");
}

# Sizes (of what the mock counts as that) of the calls that were refused, or taken.
sub refused { my ($what) = @_; return map { $_->{$what} } grep { $_->{status} != 200 } @{ $mock->sizes }; }
sub accepted { my ($what) = @_; return map { $_->{$what} } grep { $_->{status} == 200 } @{ $mock->sizes }; }
sub most { my $most = 0; foreach (@_) { $most = $_ if $_ > $most; } return $most; }

# One request at a time: there is none on its way when a size proves to be too large.
my $one = '{"max_concurrency": 1}';

# ----------------------------------------------------------------------------------------------
# A limit that nobody knows.

foreach my $enable (qw(on off))
{
	foreach my $case ([ 'with words', 'limit_status=413' ], [ 'a bare 400', 'limit_status=400', 'limit_words=0' ])
	{
		my ($name, @settings) = @$case;
		$name = "$name, enable $enable";
		given('', 'limit_items=37', @settings);
		ask("ALTER DATABASE postgres SET pg_inference.enable = $enable");
		if ($enable eq 'off')
		{
			# a plain function asks one by one: nothing can be too large
			is(embed(100), '100|0', "fault_F41: $name: all rows are answered");
			is(scalar(refused('items')), 0, "fault_F41: $name: nothing is refused");
			next;
		}
		is(embed(1000, undef, $one), '1000|0', "fault_F41: $name: all rows are answered");
		my @refused = refused('items');
		note("refused: @refused");
		is(join(' ', @refused), '128 64', "fault_F39: $name: no size is refused twice");
		is($mock->stat('duplicate_items'), 0, "fault_F56: $name: no input is executed twice");
		cmp_ok(most(accepted('items')), '<=', 37, "fault_F41: $name: at most 37 are sent");
		$mock->reset;
		is(embed(1000, "'more ' || 10000 + i"), '1000|0', "fault_F41: $name: the next statement is answered");
		is(scalar(refused('items')), 0, "fault_F41: $name: which knows the limit");
		is(most(accepted('items')), 32, "fault_F41: $name: and uses it");
		# until somebody alters the server
		$mock->set('limit_items=2048');
		$mock->reset;
		ask(q{ALTER SERVER s OPTIONS (ADD node 'other')});
		is(embed(1000, "'again ' || 10000 + i"), '1000|0', "fault_F41: $name: after ALTER SERVER");
		is(most(accepted('items')), 128, "fault_F41: $name: it begins anew");
	}
}
ask('ALTER DATABASE postgres RESET pg_inference.enable');

# Many at a time: what is on its way is refused as well, and that is all.
given('', 'limit_items=37', 'limit_status=400', 'limit_words=0', 'base_ms=5');
is(embed(5000), '5000|0', 'fault_F41: many at a time');
is($mock->stat('duplicate_items'), 0, 'fault_F56: many at a time: no input is executed twice');
$mock->reset;
is(embed(5000, "'more ' || 10000 + i"), '5000|0', 'fault_F41: many at a time: the next statement');
is(scalar(refused('items')), 0, 'fault_F41: many at a time: knows the limit');

# Tokens (of the mock: a quarter of the bytes), with and without words.
foreach my $words (0, 1)
{
	given('', 'limit_tokens=1000', 'limit_status=400', "limit_words=$words");
	my $long = "rpad('text ' || i, 20 + i % 300, '.')";
	is(embed(1000, $long, $one), '1000|0', "fault_F39: tokens, words $words: all rows are answered");
	my @refused = refused('tokens');
	my %seen;
	is(scalar(grep { $seen{$_}++ } @refused), 0, "fault_F39: tokens, words $words: no size is refused twice")
	  or diag("@refused");
	cmp_ok(scalar(@refused), '<=', 6, "fault_F39: tokens, words $words: few are");
	is($mock->stat('duplicate_items'), 0, "fault_F56: tokens, words $words: no input is executed twice");
	$mock->reset;
	is(embed(1000, "'2' || $long"), '1000|0', "fault_F39: tokens, words $words: the next statement");
	is(scalar(refused('tokens')), 0, "fault_F39: tokens, words $words: knows the limit")
	  or diag(join(' ', refused('tokens')));
}

# ----------------------------------------------------------------------------------------------
# Limits that somebody knows.

given(", max_batch_tokens '1000'", 'limit_tokens=1000', 'limit_status=400');
is(embed(2000, "rpad('text ' || i, 20 + i % 300, '.')"), '2000|0', 'fault_F40: max_batch_tokens');
is(scalar(refused('tokens')), 0, 'fault_F40: is never exceeded');
$mock->reset;
is(embed(2000, "rpad('next ' || i, 20 + i % 300, '.')"), '2000|0', 'fault_F40: the next statement');
is(scalar(refused('tokens')), 0, 'fault_F40: does not exceed it, either');
cmp_ok(most(accepted('tokens')), '>', 500, 'fault_F40: but makes use of it, for answers have told what a token is');

given(", max_batch_size '2048'", 'limit_items=2048', 'limit_tokens=300000', 'limit_body_kb=4096');
is(embed(3000, "rpad('text ' || i, 1500, 'abcd')"), '3000|0', 'fault_F38: long rows under the limits of a hosted API');
is(scalar(refused('items')), 0, 'fault_F38: nothing is refused');

given(", max_batch_size '10000'", 'limit_items=10000');
$node->safe_psql('postgres', q{ALTER DATABASE postgres SET pg_inference.buffer_memory = '256MB'});
is(embed(5000, undef, '{"streaming_mode": "batch"}'), '5000|0', 'fault_F43: a batch as large as the server takes');
$node->safe_psql('postgres', q{ALTER DATABASE postgres RESET pg_inference.buffer_memory});
is($mock->stat('requests'), 1, 'fault_F43: is one request') or diag(join ' ', accepted('items'));

# ----------------------------------------------------------------------------------------------
# One bad input: the others are answered, once, and the next batches are as large as before.

foreach my $bad (1, 77, 250, 500)
{
	given(", max_batch_size '500'");
	my $text = "'text ' || i || CASE WHEN i = $bad THEN ' [[mock:400]]' ELSE '' END";
	is(embed(500, $text), '499|1', "fault_F42: input $bad of 500 is bad: it fails alone");
	is($mock->stat('items') . ' ' . $mock->stat('duplicate_items'),
		'499 0', "fault_F56: input $bad of 500 is bad: the others are executed once");
	cmp_ok($mock->stat('requests'), '<=', 24, "fault_F42: input $bad of 500 is bad: found by halves");
	$mock->reset;
	is(embed(500, "'more ' || 10000 + i"), '500|0', "fault_F42: input $bad of 500 is bad: the next statement");
	is($mock->stat('requests'), 1, "fault_F42: input $bad of 500 is bad: has not learnt a small size");
}

# An over-long one, with a server that says so, and one in each batch.
given('', 'limit_tokens=2000', 'limit_status=400');
is(embed(500, "'text ' || i || CASE WHEN i % 100 = 50 THEN repeat('long', 2500) ELSE '' END"),
	'495|5', 'fault_F42: over-long inputs fail alone');
is($mock->stat('items') . ' ' . $mock->stat('duplicate_items'), '495 0', 'fault_F42: the others are executed once');
$mock->reset;
is(embed(500, "'more ' || 10000 + i"), '500|0', 'fault_F42: after over-long inputs');
is($mock->stat('requests'), 4, 'fault_F42: batches are whole');

# ----------------------------------------------------------------------------------------------
# Nor is a small size learnt from a server that answers 400 now and then, whatever it was asked.

given('');
embed(128, "'first ' || i");
$mock->set('fault_400=3');
my ($values) = split /\|/, embed(20_000);
cmp_ok($values, '>', 19_000, 'fault_F42: refusals by chance: most rows are answered');
cmp_ok(scalar(refused('items')), '>', 5, 'fault_F42: there were some');
$mock->set('defaults', 'dim=4');
$mock->reset;
is(embed(1280, "'more ' || 10000 + i"), '1280|0', 'fault_F42: after refusals by chance');
is($mock->stat('requests'), 10, 'fault_F42: batches are whole');

# A server that really takes less than it did is believed.
$mock->set('limit_items=100', 'limit_status=400', 'limit_words=0');
$mock->reset;
is(embed(5000, "'then ' || 10000 + i"), '5000|0', 'fault_F41: a limit that fell: all rows are answered');
cmp_ok(scalar(refused('items')), '>=', 3, 'fault_F41: a limit that fell: it is not believed at once');
$mock->reset;
is(embed(5000, "'next ' || 10000 + i"), '5000|0', 'fault_F41: a limit that fell: the next statement');
is(scalar(refused('items')), 0, 'fault_F41: a limit that fell: knows it');

# Long parameters are those of one statement.
given('', 'limit_body_kb=256');
is(ask(q{SELECT count(infer.embed('s/m', 'text ' || 10000 + i, jsonb_build_object('user', repeat('x', 261000)))) FROM generate_series(1, 500) i}),
	500, 'fault_F41: long parameters: all rows are answered');
cmp_ok(scalar(refused('items')), '>', 0, 'fault_F41: long parameters: some requests were too large');
$mock->reset;
is(embed(1280, "'more ' || 10000 + i"), '1280|0', 'fault_F41: after long parameters');
is($mock->stat('requests'), 10, 'fault_F41: batches are whole');

# A session that gives up while halves are on their way leaves nothing behind.
given('', 'limit_items=37', 'limit_status=400', 'base_ms=20');
is(ask(q{SELECT count(*) FROM (SELECT infer.embed('s/m', 'text ' || 10000 + i) FROM generate_series(1, 1000) i LIMIT 1) s}),
	1, 'given up: a LIMIT');
is(ask(q{SELECT in_flight FROM infer.stat_admission WHERE key = 's'}), 0, 'given up: no permit is kept');
is(embed(300), '300|0', 'given up: the next statement is answered');

# ----------------------------------------------------------------------------------------------
# Results that cannot be matched fail the query whatever the policy; a missing one only its row.

given('');
my @policies = (
	[ 'fail', q{infer.embed('s/m', 'x %s' || i)} ],
	[ 'null', q{infer.embed('s/m', 'x %s' || i, options => '{"on_error": "null"}')} ],
	[ 'try', q{infer.try_embed('s/m', 'x %s' || i)} ]);
foreach my $fault (qw(count dupindex badindex negindex noindexshort someindex missing3 noindex))
{
	my $alignable = $fault =~ /^(count|missing3|noindex)$/;
	foreach my $policy (@policies)
	{
		my ($name, $call) = @$policy;
		$mock->set("fault_$fault=100");
		my ($code, $out, $err) = $node->psql('postgres', "\\set VERBOSITY verbose\nSELECT count("
			. ($name eq 'try' ? '(o).value' : 'o') . ') FROM (SELECT ' . sprintf($call, "$fault $name")
			. ' AS o FROM generate_series(1, 10) i OFFSET 0) s');
		if (!$alignable || ($name eq 'fail' && $fault ne 'noindex'))
		{
			like($err, $alignable ? qr/RXMIS/ : qr/RXALN/, "fail_P14: $fault, $name: the query fails");
		}
		else
		{
			is($out, $fault eq 'noindex' ? 10 : 9, "fail_P14: $fault, $name: the rows that are there stand") or diag($err);
		}
	}
	$mock->set("fault_$fault=0");
}

unlike(PostgreSQL::Test::Utils::slurp_file($node->logfile),
	qr/PANIC|WARNING|terminated by signal/, 'the log has no complaint');
$node->stop;
done_testing();
