# What a gateway in front of a server is told of a request: only where the server's owner says so.
use strict;
use warnings;
use InferTest;
use InferTrap;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = InferTest::new_node('signals', 'autovacuum = off');
my %trap = map { $_ => InferTrap->new } qw(told untold);

$node->safe_psql(
	'postgres', q{CREATE EXTENSION pg_inference; CREATE ROLE "ada & bob/é" SUPERUSER}
	  . join('', map { qq{; CREATE SERVER $_ FOREIGN DATA WRAPPER pg_inference OPTIONS (url '}
			  . 'http://127.0.0.1:' . $trap{$_}->port . qq{/v1', trust 'direct', signals '} . ($_ eq 'told' ? 'true' : 'false') . q{')} } sort keys %trap));

my $trace = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
sub call
{
	my ($server, $options, @before) = @_;
	$node->safe_psql('postgres', join('', map { "$_;\n" } @before)
		  . "SELECT infer.complete('$server/m', 'hello', '{}', '$options')");
	return;
}

# The signals of the last request, sorted: "name: value"
sub signals
{
	my ($server) = @_;
	my ($head) = reverse grep { /^POST / } split /(?=POST )/, $trap{$server}->seen;
	$head =~ s/\r\n\r\n.*//s;
	return join("\n", sort grep { /^(x-gateway|x-envoy|traceparent)/ } split /\r\n/, $head);
}

call('untold', '{"priority": "HIGH"}', "SET pg_inference.traceparent = '$trace'");
is(signals('untold'), '', 'a server without the option is told nothing');
call('told', '{}');
my $user = $node->safe_psql('postgres', 'SELECT current_user');
is(signals('told'), "x-envoy-upstream-rq-timeout-ms: 60000\nx-gateway-inference-fairness-id: postgres/$user\n"
	  . 'x-gateway-inference-objective: normal', 'priority, caller and timeout');
call('told', '{"priority": "VHIGH", "timeout": "7s"}', 'SET ROLE "ada & bob/é"', "SET pg_inference.traceparent = '$trace'");
is(signals('told'), "traceparent: $trace\nx-envoy-upstream-rq-timeout-ms: 7000\n"
	  . "x-gateway-inference-fairness-id: postgres/ada%20%26%20bob%2F%C3%A9\nx-gateway-inference-objective: vhigh",
	'names that no header could hold are encoded');

# a retry is more urgent than what was refused, as for us (gw_5)
my $good = '{"choices":[{"text":"good","message":{"content":"good"}}]}';
$trap{busy} = InferTrap->new(answer => sub {
	return $_[0] =~ /objective: high/ ? 'HTTP/1.1 200 OK' . "\r\nContent-Length: " . length($good) . "\r\n\r\n$good"
	  : "HTTP/1.1 429 Busy\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n";
});
$node->safe_psql('postgres', q{CREATE SERVER busy FOREIGN DATA WRAPPER pg_inference OPTIONS (url 'http://127.0.0.1:}
	  . $trap{busy}->port . q{/v1', signals 'true')});
is( $node->safe_psql('postgres', q{SELECT value, attempts FROM infer.try_complete('busy/m', 'hello', '{}', '{"max_attempts": 3, "priority": "LOW"}')}),
	'good|3', 'each attempt says how urgent it is');
is(join(' ', $trap{busy}->seen =~ /objective: (\w+)/g), 'low normal high', '... one class more each time');

foreach my $wrong ("00-$trace", uc $trace, "$trace-", '00-' . '0' x 32 . '-b7ad6b7169203331-01', "01$trace", "$trace\nX: y")
{
	my ($code, $out, $err) = $node->psql('postgres', "SET pg_inference.traceparent = '$wrong'");
	like($err, qr/invalid value for parameter "pg_inference.traceparent"/, 'refused: ' . $wrong =~ s/\n/\\n/r);
}

$node->stop;
done_testing();
