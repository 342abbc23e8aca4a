# TLS: who the server is is always verified, and what a connection was made with, it belongs to.
use strict;
use warnings;
use InferTest;
use InferProc;
use InferTls;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $folder = PostgreSQL::Test::Utils::tempdir;
my $pki = InferTls->new($folder);
$pki->authority($_) foreach qw(ca other self system);
$pki->certificate('good', 'ca', san => 'DNS:good.test,IP:127.0.0.1');
$pki->certificate('stranger', 'ca', san => 'DNS:other.test,IP:127.0.0.9');
$pki->certificate('expired', 'ca', san => 'DNS:good.test,IP:127.0.0.1', expired => 1);
$pki->certificate($_, 'ca') foreach qw(anna ben);
$pki->certificate('mallory', 'other');
$pki->certificate('public', 'system', san => 'IP:127.0.0.1');

my $mock = InferTest::Mock->new('dim=4');
my ($mock_port) = $mock->url =~ /:(\d+)$/;
sub front { my ($name, %options) = @_; return $pki->front($name, upstream => $mock_port, %options); }

# The environment may name authorities and a file for keys, and let old protocols in: none of it counts.
append_to_file("$folder/hosts", "good.test 127.0.0.1\nbad.test 127.0.0.1\n");
append_to_file("$folder/openssl.cnf", "openssl_conf = a\n[a]\nssl_conf = b\n[b]\nsystem_default = c\n"
	. "[c]\nMinProtocol = TLSv1\nCipherString = DEFAULT\@SECLEVEL=0\n");
my $node = PostgreSQL::Test::Cluster->new('tls');
$node->init;
# handshakes fail one after the other, each for its own reason
$node->append_conf('postgresql.conf', "shared_preload_libraries = 'pg_inference'\npg_inference.failure_threshold = 0\npg_inference.gateway = off\n");
{
	local $ENV{LD_PRELOAD} = InferProc::build_slow_dns($folder) . ' ' . InferProc::build_preload($folder, 'system_certs');
	local $ENV{SYSTEM_CERTS} = $pki->folder_of('system');
	local $ENV{DNS_HOSTS} = "$folder/hosts";
	local $ENV{SSLKEYLOGFILE} = "$folder/keylog";
	local $ENV{OPENSSL_CONF} = "$folder/openssl.cnf";
	local @ENV{qw(SSL_CERT_FILE CURL_CA_BUNDLE)} = ($pki->path('ca.pem')) x 2;
	local $ENV{SSL_CERT_DIR} = $folder;
	$node->start;
}

sub ask { return $node->safe_psql('postgres', join("\n", @_)); }

sub error_of { return InferTest::error($node, @_); }

InferTest::connect_mock($node, $mock);
ask(q{CREATE ROLE anna; CREATE ROLE ben; CREATE ROLE nobody; CREATE ROLE reader IN ROLE pg_read_server_files});

# A new server s at a front; options of the server.
sub serve
{
	my ($front, %options) = @_;
	my $host = delete $options{host} // '127.0.0.1';
	$options{ca_file} = $pki->path($options{ca_file}) if defined $options{ca_file} && $options{ca_file} !~ m{/};
	my $list = join('', map { ", $_ '$options{$_}'" } sort keys %options);
	ask('DROP SERVER IF EXISTS s CASCADE;', "CREATE SERVER s FOREIGN DATA WRAPPER pg_inference
		OPTIONS (url 'https://$host:" . $front->port . "/v1'$list); GRANT USAGE ON FOREIGN SERVER s TO PUBLIC");
	$front->forget;
	$mock->reset;
	return;
}

my $n = 0;
sub call { return "SELECT coalesce((o).reason, '') || ' ' || (o).execution FROM infer.try_complete('s/m', 'x" . ++$n . q{', options => '{"max_attempts": 1}') o;}; }
sub outcome { return ask(call()); }
sub requests { return $mock->stat('requests'); }

# ----------------------------------------------------------------------------------------------
# Who the server is. fail_P1: a failed verification is not admitted, and the ledger is empty.

my %front = map { $_ => front($_) } qw(good stranger expired self);
serve($front{good}, ca_file => 'ca.pem');
is(outcome(), ' executed', 'a server that the ca_file vouches for');
is($front{good}->log, "ok - -\n", '... by its address');
serve($front{good}, host => 'good.test', ca_file => 'ca.pem');
is(outcome(), ' executed', 'by its name');
is($front{good}->log, "ok good.test -\n", '... which it is told (SNI)');
serve($front{self}, ca_file => 'self.pem');
is(outcome(), ' executed', 'a server that vouches for itself, and is named as ca_file');

foreach my $case (
	[ 'an unknown authority', 'good', {}, qr/certificate/ ],
	[ 'another authority', 'good', { ca_file => 'other.pem' }, qr/certificate/ ],
	[ 'a certificate signed by itself', 'self', {}, qr/self-signed certificate/ ],
	[ 'the certificate of another host', 'stranger', { ca_file => 'ca.pem' }, qr/127\.0\.0\.1/ ],
	[ 'another name of the host', 'good', { ca_file => 'ca.pem', host => 'bad.test' }, qr/bad\.test/ ],
	[ 'an expired certificate', 'expired', { ca_file => 'ca.pem' }, qr/expired/ ])
{
	my ($name, $which, $options, $words) = @$case;
	serve($front{$which}, %$options);
	foreach my $enable (qw(on off))
	{
		is(ask("SET pg_inference.enable = $enable;", call()), 'tls_failed not_admitted', "fail_P1: $name, enable $enable");
	}
	my $said = error_of(q{SELECT infer.complete('s/m', 'x', options => '{"max_attempts": 1}')});
	like($said, qr/ERROR:  RNTLS: call of model "s\/m" on server "s" failed: no secure connection/, "fail_P1: $name, SQLSTATE");
	like($said, $words, '... and why');
	is(requests(), 0, '... and nothing reached the server');
}
# With a ca_file the system's authorities do not count.
SKIP:
{
	my $public = front('public');
	serve($public);
	skip 'libcurl has no folder of authorities here', 2 if outcome() ne ' executed';
	serve($public, ca_file => 'ca.pem');
	is(outcome(), 'tls_failed not_admitted', 'a ca_file stands instead of what the system trusts');
	serve($public, ca_file => 'system.pem');
	is(outcome(), ' executed', '... until it names that');
}
my $old = front('good', version => '1.1');
serve($old, ca_file => 'ca.pem');
is(outcome(), 'tls_failed not_admitted', 'TLS 1.1 is refused');
my $new = front('good', version => '1.2');
serve($new, ca_file => 'ca.pem');
is(outcome(), ' executed', 'TLS 1.2 is not');

# ----------------------------------------------------------------------------------------------
# A ca_file that cannot be used: a clear error of configuration, and no connection.

mkdir "$folder/directory.pem" or die $!;
append_to_file("$folder/garbage.pem", "certainly not\n" x 100);
append_to_file("$folder/empty.pem", '');
append_to_file("$folder/unreadable.pem", slurp_file($pki->path('ca.pem')));
chmod 0, "$folder/unreadable.pem";
append_to_file("$folder/large.pem", slurp_file($pki->path('ca.pem')) . "#\n" x (1024 * 1024));
append_to_file("$folder/binary.pem", slurp_file($pki->path('ca.pem')) . "\0");
append_to_file("$folder/damaged.pem", slurp_file($pki->path('ca.pem')) =~ s/^(?=[A-Z])(?<=\n)(.{20})/\$\$\$\$/mr);
foreach my $case (
	[ 'missing', qr/No such file/ ], [ 'directory', qr/not a regular file/ ],
	[ 'garbage', qr/no certificate in PEM/ ], [ 'empty', qr/no certificate in PEM/ ],
	[ 'unreadable', qr/Permission denied/ ], [ 'large', qr/more than 1024 kB/ ],
	[ 'binary', qr/binary data/ ], [ 'damaged', qr/certificate/ ])
{
	my ($name, $words) = @$case;
	serve($front{good}, ca_file => "$name.pem");
	is(outcome(), 'certificate_unusable not_admitted', "ca_file $name");
	my $said = error_of(q{SELECT infer.complete('s/m', 'x')});
	like($said, qr/ERROR:  RCCRT: .*a certificate file could not be used/, "ca_file $name: SQLSTATE");
	like($said, $words, "ca_file $name: why");
	is(requests(), 0, "ca_file $name: nothing was sent");
	is($front{good}->log, '', "ca_file $name: nobody connected") unless $name eq 'damaged';
}

# Read at each use: a connection that another file vouched for is not used again.
my $current = $pki->path('current.pem');
append_to_file($current, slurp_file($pki->path('ca.pem')));
serve($front{good}, ca_file => 'current.pem');
is( ask(call(), call(), q{COPY (SELECT) TO PROGRAM 'cp } . $pki->path('other.pem') . " $current';", call(),
		q{COPY (SELECT) TO PROGRAM 'cp } . $pki->path('ca.pem') . " $current';", call()),
	" executed\n executed\ntls_failed not_admitted\n executed", 'a ca_file that is replaced counts at once');
is((split /\n/, $front{good}->log)[0], 'ok - -', '... where it did not change the connection is kept');
is(scalar(() = $front{good}->log =~ /^/mg), 2, '... and used again');

# A key travels over TLS only to who is verified.
my $key_file = "$folder/api.key";
append_to_file($key_file, "sk-tls-Quaib3ohng\n");
$mock->set('api_key=sk-tls-Quaib3ohng');
serve($front{good}, ca_file => 'ca.pem');
ask("CREATE USER MAPPING FOR PUBLIC SERVER s OPTIONS (api_key_file '$key_file')");
is(outcome(), ' executed', 'a key travels over TLS');
$mock->set('defaults', 'dim=4');

# ----------------------------------------------------------------------------------------------
# Client certificates.

# Failures in a row.
sub health
{
	my ($front) = @_;
	return ask(q{SELECT failures_in_a_row FROM infer.stat_admission WHERE key = 'https://127.0.0.1:} . $front->port . q{'});
}

sub mapping
{
	my ($role, %options) = @_;
	$options{$_} = $pki->path($options{$_}) foreach keys %options;
	return "CREATE USER MAPPING FOR $role SERVER s OPTIONS (" . join(', ', map { "$_ '$options{$_}'" } sort keys %options) . ');';
}

my %strict = map { $_ => front('good', version => $_, client_ca => $pki->path('ca.pem')) } qw(1.2 1.3);
foreach my $version (qw(1.2 1.3))
{
	my $front = $strict{$version};
	serve($front, ca_file => 'ca.pem');
	ask(mapping('anna', client_cert_file => 'anna.pem', client_key_file => 'anna.key'),
		mapping('ben', client_cert_file => 'mallory.pem', client_key_file => 'mallory.key'));
	is(ask('SET ROLE anna;', call(), call()), " executed\n executed", "TLS $version: a client certificate is shown");
	is($front->log, "ok - anna\n", "TLS $version: it is anna's");
	$mock->reset;
	# With 1.3 the client has long sent its request when the server says no: who knows.
	my $want = $version eq '1.2' ? 'tls_failed not_admitted' : 'disconnected maybe_executed';
	is(ask('SET ROLE nobody;', call()), $want, "TLS $version: none is not enough");
	is(ask('SET ROLE ben;', call()), $want, "TLS $version: one of another authority neither");
	my $said = error_of(q{SET ROLE nobody; SELECT infer.complete('s/m', 'x', options => '{"max_attempts": 1}')});
	like($said, $version eq '1.2' ? qr/ERROR:  RNTLS: .*server "s".*alert/s : qr/ERROR:  RMDIS: .*server "s".*certificate required/s,
		"TLS $version: the error says so");
	is(requests(), 0, "TLS $version: none of them was executed");
	is(ask(map { ('SET ROLE nobody;', call(), 'SET ROLE ben;', call()) } 1 .. 3), join("\n", ($want) x 6), "TLS $version: nor with the time");
	is(health($front), '0', "TLS $version: which is no reason to leave the server alone");
}

# Nor is it that somebody does not wait for its handshake.
my $gate = "$folder/gate";
my $held = front('good', hold => $gate);
serve($held, ca_file => 'ca.pem');
is( ask("SET ROLE nobody; SET pg_inference.connect_timeout = '30ms';", map { call() } 1 .. 5),
	join("\n", ('tls_failed not_admitted') x 5), 'impatience: no handshake in 30 ms');
is(health($held), '0', 'impatience: no reason to leave the server alone');
is(ask("SET pg_inference.connect_timeout = '1s';", map { call() } 1 .. 3),
	join("\n", ('tls_failed not_admitted') x 3), 'a stalled handshake');
is(health($held), '3', 'a stalled handshake: that is a failure');
append_to_file($gate, 'open');

# A connection belongs to the certificate and key that it was made with.
my $open = front('good', client_ca => $pki->path('ca.pem'), client_optional => undef);
serve($open, ca_file => 'ca.pem');
ask(mapping('anna', client_cert_file => 'anna.pem', client_key_file => 'anna.key'),
	mapping('ben', client_cert_file => 'ben.pem', client_key_file => 'ben.key'),
	mapping('reader', client_cert_file => 'anna.pem', client_key_file => 'ben.key'));
is( ask(map { ("SET ROLE $_;", call(), 'RESET ROLE;') } qw(anna ben nobody anna ben reader)),
	join("\n", (' executed') x 5, 'certificate_unusable not_admitted'), 'roles with and without certificates take turns');
is(join(' ', $open->log =~ /^ok - (\S+)$/mg), 'anna ben -', 'each has its own connection; another key of the same certificate gets none');

$pki->openssl(qw(ec -aes256 -passout pass:x -in), $pki->path('anna.key'), '-out', $pki->path('locked.key'));
append_to_file($pki->path('both.pem'), slurp_file($pki->path('anna.pem')) . slurp_file($pki->path('anna.key')));
foreach my $case (
	[ { client_cert_file => 'both.pem' }, qr/^ executed/ ],
	[ { client_cert_file => 'anna.pem' }, qr/no private key in PEM/ ],
	[ { client_cert_file => 'anna.pem', client_key_file => 'locked.key' }, qr/pass phrase, which is not supported/ ],
	[ { client_cert_file => 'anna.pem', client_key_file => 'missing.key' }, qr/missing\.key" \(client_key_file\) cannot be used: No such file/ ],
	[ { client_cert_file => 'garbage.pem', client_key_file => 'anna.key' }, qr/no certificate in PEM/ ])
{
	my ($options, $words) = @$case;
	serve($open, ca_file => 'ca.pem');
	ask(mapping('nobody', %$options));
	my $name = join(' ', map { $options->{$_} } sort keys %$options);
	like(ask('SET ROLE nobody;', q{SELECT coalesce((o).error, '') || ' ' || (o).execution || ' ' || coalesce((o).reason, '') FROM infer.try_complete('s/m', 'x') o}),
		$words, "client certificate $name");
}
ask(q{ALTER SERVER s OPTIONS (DROP ca_file, SET url 'http://127.0.0.1:} . $mock_port . q{/v1'); DROP USER MAPPING FOR nobody SERVER s;},
	mapping('nobody', client_cert_file => 'both.pem'));
$mock->reset;
is(ask('SET ROLE nobody;', call()), 'certificate_unusable not_admitted', 'over http a client certificate is withheld');
is(requests(), 0, '... and so is the request');

# ----------------------------------------------------------------------------------------------
# Who may name files, and which.

ask('GRANT USAGE ON FOREIGN DATA WRAPPER pg_inference TO nobody, reader');
foreach my $case (
	[ nobody => q{CREATE SERVER t FOREIGN DATA WRAPPER pg_inference OPTIONS (url 'https://x.test', ca_file '/etc/passwd')}, '42501' ],
	[ ben => q{CREATE USER MAPPING FOR ben SERVER s OPTIONS (client_cert_file '/etc/passwd')}, '42501' ],
	[ nobody => q{ALTER USER MAPPING FOR nobody SERVER s OPTIONS (ADD client_key_file '/etc/passwd')}, '42501' ],
	[ reader => q{CREATE SERVER t FOREIGN DATA WRAPPER pg_inference OPTIONS (url 'https://x.test', ca_file 'ca.pem')}, '22023' ],
	[ reader => q{CREATE SERVER t FOREIGN DATA WRAPPER pg_inference OPTIONS (url 'http://x.test', ca_file '/ca.pem')}, '22023' ],
	[ reader => q{CREATE USER MAPPING FOR reader SERVER s OPTIONS (client_cert_file 'anna.pem')}, '22023' ],
	[ reader => q{CREATE USER MAPPING FOR reader SERVER s OPTIONS (client_key_file '/anna.key')}, '42601' ],
	[ reader => q{CREATE USER MAPPING FOR reader SERVER s OPTIONS (client_key_phrase 'x')}, 'HV00D' ])
{
	my ($role, $sql, $state) = @$case;
	like(error_of("SET ROLE $role; $sql"), qr/ERROR:  $state: /, "$role: $sql");
}
is(ask(q{SET ROLE reader; CREATE SERVER t FOREIGN DATA WRAPPER pg_inference OPTIONS (url 'https://x.test', ca_file '/ca.pem');
	DROP SERVER t; SELECT 1}), 1, 'a reader of server files may name one');

# ----------------------------------------------------------------------------------------------
# fault_F77: what TLS servers do.

my $whole = '{"choices":[{"text":"good","message":{"content":"good"}}]}';
my $length = length $whole;
my %quirk = (
	'no goodbye after a whole answer' => [ [ answer => "HTTP/1.1 200 OK\\r\\nContent-Length: $length\\r\\n\\r\\n$whole" ], ' executed' ],
	'an answer that ends with the goodbye' => [ [ answer => "HTTP/1.1 200 OK\\r\\n\\r\\n$whole", polite => undef ], ' executed' ],
	'an answer cut without a goodbye' => [ [ answer => "HTTP/1.1 200 OK\\r\\n\\r\\n" . substr($whole, 0, 20) ], qr/^(?:incomplete|malformed)_reply executed$/ ],
	'no answer' => [ [ answer => '' ], 'disconnected maybe_executed' ],
	'h2 agreed, HTTP/1.1 spoken' => [ [ answer => "HTTP/1.1 200 OK\\r\\nContent-Length: $length\\r\\n\\r\\n$whole", alpn => 'h2' ], qr/^\w+ (?:maybe_executed|not_admitted)$/ ]);
foreach my $name (sort keys %quirk)
{
	my ($options, $want) = @{ $quirk{$name} };
	my $front = $pki->front('good', @$options);
	serve($front, ca_file => 'ca.pem');
	my $got = outcome();
	ref $want ? like($got, $want, "fault_F77: $name") : is($got, $want, "fault_F77: $name");
	next if $got eq ' executed';
	like(error_of(q{SELECT infer.complete('s/m', 'x', options => '{"max_attempts": 1}')}),
		qr/ERROR:  R[NMX]\w{3}: call of model "s\/m" on server "s" failed: /, "fault_F77: $name: the error names the endpoint");
}
my $plain = front('good', alpn => 'http/1.1');
serve($plain, ca_file => 'ca.pem');
is(outcome(), ' executed', 'fault_F77: h2 is not wanted');

# ----------------------------------------------------------------------------------------------

ok(!-e "$folder/keylog", 'SSLKEYLOGFILE: no keys of connections are written');
unlike(slurp_file($node->logfile), qr/PANIC|WARNING|terminated by signal/, 'the log has no complaint');
$node->stop;
done_testing();
