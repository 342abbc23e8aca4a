# Where requests may go: only to hosts that a server object names, never to where machines keep
# credentials, whatever name or spelling leads there, and whatever the environment says. Nothing goes
# to where a redirect points, and nothing that callers give can become a header or another path.
use strict;
use warnings;
use InferTest;
use InferProc;
use InferTrap;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $folder = PostgreSQL::Test::Utils::tempdir;
my $proxy = InferTrap->new;
my $mock = InferTest::Mock->new('dim=4');
my ($port) = $mock->url =~ /:(\d+)$/;

# What a server's environment may have that HTTP libraries listen to.
mkdir "$folder/home" or die $!;
append_to_file("$folder/home/.netrc", "machine 127.0.0.1 login mallory password netrc-secret\n");
append_to_file("$folder/home/.curlrc", "proxy = 127.0.0.1:" . $proxy->port . "\n");
append_to_file("$folder/hosts", '');
my $node = PostgreSQL::Test::Cluster->new('egress');
$node->init;
$node->append_conf('postgresql.conf', "shared_preload_libraries = 'pg_inference'\npg_inference.gateway = off\n");
{
	my $address = 'http://127.0.0.1:' . $proxy->port;
	local $ENV{LD_PRELOAD} = InferProc::build_slow_dns($folder);
	local $ENV{DNS_HOSTS} = "$folder/hosts";
	local $ENV{DNS_LOG} = "$folder/lookups";
	local @ENV{qw(http_proxy https_proxy all_proxy HTTPS_PROXY ALL_PROXY)} = ($address) x 5;
	local @ENV{qw(HOME CURL_HOME)} = ("$folder/home") x 2;
	delete local @ENV{qw(no_proxy NO_PROXY)};
	$node->start;
}

sub ask { return $node->safe_psql('postgres', join("\n", @_)); }

sub error_of { return InferTest::error($node, @_); }

# reason and execution of one call, in a session of its own
sub outcome { return ask("SELECT (o).reason, (o).execution FROM infer.try_complete('$_[0]/m', '" . ($_[1] // 'x') . "') o"); }

sub resolves
{
	my (%addresses) = @_;
	unlink "$folder/hosts";
	append_to_file("$folder/hosts", join('', map { "$_ $addresses{$_}\n" } sort keys %addresses));
	return;
}

sub lookups { return -e "$folder/lookups" ? slurp_file("$folder/lookups") : ''; }

InferTest::connect_mock($node, $mock);
my $url = $mock->url;
ask(q{CREATE ROLE maker; CREATE ROLE caller;
	GRANT USAGE ON FOREIGN DATA WRAPPER pg_inference TO maker;
	SET ROLE maker; CREATE SERVER s FOREIGN DATA WRAPPER pg_inference OPTIONS (url 'http://unset.test/v1')});

sub point { return ask("SET ROLE maker; ALTER SERVER s OPTIONS (SET url '$_[0]')"); }

# ----------------------------------------------------------------------------------------------
# fault_F83: no role that may create servers has the machine's own credentials fetched, or talks to
# addresses that are nobody's. Refused before a connection.

foreach my $host (
	qw(169.254.169.254 169.254.170.2 100.100.100.200 168.63.129.16 192.0.0.192 0.0.0.0 0.1.2.3
	224.0.0.1 239.255.255.250 240.0.0.1 255.255.255.255
	[::] [::ffff:0.0.0.0] [::0.0.0.2] [fe80::1] [fd00:ec2::254] [fd00:ec2::23] [fd20:ce::254] [ff02::1]
	[::ffff:169.254.169.254] [::ffff:a9fe:a9fe] [::169.254.169.254] [::ffff:0:169.254.169.254]
	[64:ff9b::169.254.169.254] [64:ff9b:1::169.254.169.254] [64:ff9b:1:a9fe:a9:fe00::]
	[64:ff9b:1:a9:fe:a9fe::] [64:ff9b:1::a9:fea9:fe00:0] [2002:a9fe:a9fe::1] [2001:0:1:2::3]))
{
	point("http://$host:$port/v1");
	is(outcome('s'), 'egress_denied|not_admitted', "fault_F83: $host");
}
is($mock->stat('requests'), 0, 'fault_F83: 0.0.0.0 is no way to reach this host');
like(error_of(q{SELECT infer.complete('s/m', 'x')}), qr/ERROR:  RCEGR: .*not allowed.*is not allowed/s,
	'fault_F83: the error says what is not allowed');

# Others are the owner's choice: loopback and private networks.
foreach my $host (qw(127.0.0.1 localhost))
{
	point("http://$host:$port/v1");
	is(outcome('s', $host), '|executed', "$host is called");
}

# What only some programs read as an address is refused as a url.
foreach my $host (
	qw(0x7f.1 0x7f000001 2130706433 0177.0.0.1 127.1 127.0.0.0x1 0xA9FEA9FE 2852039166 169.254.43518
	0251.0376.0251.0376 1.2.3.4.5 127.0.0.1. localhost. .localhost local..host 1 0x
	[fe80::1%25eth0] [fe80::1%eth0] user@127.0.0.1 user:pw@127.0.0.1 127.0.0.1%2f 127.0.0.1%00),
	"127.0.0.1\\\\.example.com", "127.0.0.1\x{e3}\x{80}\x{82}example.com")
{
	like(error_of(qq{SET ROLE maker; ALTER SERVER s OPTIONS (SET url 'http://$host:$port/v1')}),
		qr/ERROR:  22023: .*option "url"/, "fault_F83: $host is not taken");
}

# ----------------------------------------------------------------------------------------------
# Names: what counts is where they lead, at each connection.

my $other = InferTrap->new(address => '127.0.0.2', port => $port);
resolves('meta.test' => '169.254.169.254', 'wrapped.test' => '::ffff:169.254.169.254',
	'zero.test' => '0.0.0.0', 'both.test' => '0.0.0.0 127.0.0.2', 'rebound.test' => '127.0.0.1');
$mock->reset;
foreach my $name (qw(meta.test wrapped.test zero.test))
{
	point("http://$name:$port/v1");
	is(outcome('s'), 'egress_denied|not_admitted', "a name for a forbidden address: $name");
}
point("http://both.test:$port/v1");
is(outcome('s'), '|executed', 'a name with a forbidden and another address: the other is called');
is($other->connections, 1, '... it is');
is($mock->stat('requests'), 0, '... and the forbidden is not');

point("http://rebound.test:$port/v1");
is(outcome('s', 'before'), '|executed', 'rebinding: the name leads to an allowed address');
resolves('rebound.test' => '0.0.0.0');
is(outcome('s', 'after'), 'egress_denied|not_admitted', 'rebinding: then to a forbidden one');
is($mock->stat('requests'), 1, 'rebinding: which is not called');

# A superuser may list such an address, the very one.
point("http://0.0.0.0:$port/v1");
is( ask(q{SET pg_inference.allowed_hosts = '0.0.*'; SELECT (infer.try_complete('s/m', 'a')).reason;
		SET pg_inference.allowed_hosts = '0.0.0.0'; SELECT (infer.try_complete('s/m', 'b')).reason IS NULL;}),
	"egress_denied\nt", 'a forbidden address that a superuser lists is called, by its own name only');
is(outcome('s', 'c'), 'egress_denied|not_admitted', '... as long as it is listed');

# ----------------------------------------------------------------------------------------------
# fail_P66 and allowed_hosts: what is not allowed is not even looked up.

unlink "$folder/lookups";
$mock->reset;
resolves('named.test' => '127.0.0.1', 'api.listed.test' => '127.0.0.1');
point("http://named.test:$port/v1");
foreach my $enable (qw(on off))
{
	like(error_of("SET pg_inference.enable = $enable; SET ROLE caller; SELECT $_ FROM generate_series(1, 2) i"),
		qr/ERROR:  42501: permission denied for foreign server/, "fail_P66: $_, enable $enable")
	  foreach q{infer.complete('s/m', 'x' || i)}, q{infer.try_complete('s/m', 'x' || i)},
	  q{infer.embed('s/m', 'x' || i)}, q{infer.call('s/', jsonb_build_object('x', i))};
}
like(error_of(q{SET ROLE caller; SELECT infer.create_model('own', 'complete', 's')}),
	qr/ERROR:  42501/, 'fail_P66: nor a model on it');
like(error_of(q{SET ROLE caller; SET pg_inference.allowed_hosts = '*'}),
	qr/ERROR:  42501/, 'who may be called is for superusers to say');
like(error_of(q{SET pg_inference.allowed_hosts = '*.listed.test, listed.test'; SELECT infer.complete('s/m', 'x')}),
	qr/ERROR:  RCCFG: host "named.test" .* is not allowed/, 'allowed_hosts binds the owner of a server, too');
is(lookups(), '', 'fail_P66: no name was looked up');
is($mock->stat('requests'), 0, 'fail_P66: nothing was sent');
point("http://api.listed.test:$port/v1");
is(ask(q{SET pg_inference.allowed_hosts = '*.listed.test'; SELECT (infer.try_complete('s/m', 'x')).reason IS NULL}),
	't', 'a listed name is called');
like(lookups(), qr/^api\.listed\.test \d+$/m, '... after it was looked up');

# ----------------------------------------------------------------------------------------------
# fail_P20, fault_F91: a redirect leads nowhere.

my $target = InferTrap->new;
foreach my $status (301, 302, 303, 307, 308)
{
	foreach my $to ('http://127.0.0.1:' . $target->port . '/v1', "http://127.0.0.1:$port/v1/completions", 'file:///etc/passwd')
	{
		my $sender = InferTrap->new(
			answer => "HTTP/1.1 $status There\r\nLocation: $to\r\nContent-Length: 0\r\n\r\n");
		point('http://127.0.0.1:' . $sender->port . '/v1');
		$mock->reset;
		is(outcome('s', 'moved'), 'redirected|not_admitted', "fail_P20: $status to $to");
		is($sender->connections . $mock->stat('requests'), '10', "fail_P20: $status, one request in all");
	}
}
is($target->connections, 0, 'fail_P20, fault_F91: nobody came to the second server');

# ----------------------------------------------------------------------------------------------
# Injection: what callers give stays what it is.

my $echo = InferTrap->new;
my $echo_port = $echo->port;
point("http://127.0.0.1:$echo_port/v1");
ask(q{GRANT USAGE ON FOREIGN SERVER s TO caller; CREATE USER MAPPING FOR caller SERVER s});
foreach my $path (
	'v1', '', '//other.test/', 'http://other.test/', '/../admin', '/a/..', '/%2e%2e/admin', '/.%2E/admin', '/a/%2E./b',
	'/a#b', '/a b', '/a\\\\b', '/\\\\other.test', '/a\\r\\nX-Evil: 1', '/a\\nX-Evil: 1', '/a\\tb', '/a\\u0001', '/a\\u00e9',
	'@other.test/', ':80/', '/a\\u2028b')
{
	like(error_of(qq{SET ROLE caller; SELECT infer.call('s/', '{}', '{"path": "$path"}')}),
		qr/ERROR:  RCCFG: .*path/, "injection: path $path");
}
is($echo->connections, 0, 'injection: nothing was sent');
foreach my $call (
	q{infer.complete(E's/m\r\nX-Evil: 1\r\n\r\n', 'x')},
	q{infer.complete('s/m', E'x\r\nX-Evil: 1\r\n\r\nPOST /evil HTTP/1.1')},
	q{infer.complete('s/m', 'x', jsonb_build_object(E'a\r\nX-Evil: 1', E'b\r\nX-Evil: 1'))},
	q<infer.complete('s/m"}],"evil":[{"a":"', 'x"}],"evil":[{"a":"b')>,
	q{infer.complete('s/m', 'x', options => jsonb_build_object('idempotency_key', E'a\r\nX-Evil: 1'))},
	q{infer.call('s/', jsonb_build_object(E'a\r\nX-Evil: 1', E'\r\n\r\n'), '{"path": "/a%0d%0aX-Evil:%201?b=%00"}')})
{
	$echo->forget;
	ask("SET ROLE caller; SELECT $call");
	my ($head, $body) = $echo->seen =~ /^(.*?)\r\n\r\n(.*)$/s;
	unlike($head, qr/^(?:X-Evil|POST \/evil)/m, "injection: no line of the head by $call");
	like($head, qr{^POST /v1/[^ ]* HTTP/1\.1\r\nHost: 127\.0\.0\.1:$echo_port\r\n}, '... which is of this server');
	unlike($body, qr/[\r\n]|"evil"/, '... and its body is one line of what was given');
}

# ----------------------------------------------------------------------------------------------
# The environment decides nothing.

is($proxy->connections, 0, 'no request went to a proxy of the environment');
unlike($echo->seen, qr/authorization/i, '.netrc gives no password away');

unlike(slurp_file($node->logfile), qr/PANIC|WARNING|terminated by signal/, 'the log has no complaint');
$node->stop;
done_testing();
