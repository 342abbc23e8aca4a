# A server that answers as no server should. What it does is what the request's "model" says.
#
#   my $hostile = InferHostile->new;
#   ... SELECT infer.try_embed('hostile/nan', 'x') ...   # with a server object for $hostile->url
package InferHostile;

use strict;
use warnings;
use IO::Compress::Gzip qw(gzip $GzipError);
use IO::Select;
use IO::Socket::INET;
use JSON::PP;
use POSIX ();
use Time::HiRes qw(sleep);

# An embedding answer for n inputs, with this text as each embedding, and as usage.
sub embeddings
{
	my ($n, $embedding, $usage) = @_;
	my @data = map { qq({"index":$_,"embedding":$embedding}) } 0 .. $n - 1;
	return '{"data":[' . join(',', @data) . '],"usage":' . ($usage // '{"prompt_tokens":1}') . '}';
}

# A completion answer, with this JSON as its text.
sub completion { return qq({"choices":[{"text":$_[0],"message":{"content":$_[0]}}]}); }

# The beginning of a streamed completion, a chunk for each text, and its end.
sub events { return join('', map { qq(data: {"choices":[{"index":0,"delta":{"content":"$_"}}]}\n\n) } @_); }

sub ending
{
	return qq(data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],)
	  . qq("usage":{"prompt_tokens":3,"completion_tokens":2}}\n\ndata: [DONE]\n\n);
}

sub head
{
	my ($status, @lines) = @_;
	return join("\r\n", "HTTP/1.1 $status", @lines, '', '');
}

sub answer
{
	my ($body, $status, @lines) = @_;
	return head($status // '200 OK', @lines, 'Content-Length: ' . length $body) . $body;
}

sub zipped
{
	my ($body) = @_;
	my $zipped;
	gzip(\$body => \$zipped) or die "gzip: $GzipError";
	return $zipped;
}

# Without end: a head, then the same bytes until the client has enough, with a pause of so many seconds.
sub endless { return ([ $_[0] ], $_[1], $_[2]); }

# A good answer, with some of its bytes changed, taken out, doubled, or its end cut off. What is done
# follows from the request alone. The connection is closed behind it.
sub spoilt
{
	my ($inputs, $request) = @_;
	my $text = ref $request->{input} eq 'ARRAY' ? $request->{input}[0] : $request->{input} // $request->{messages}[0]{content};
	my $state = unpack('%32C*', $text) * 7919 + length $text;
	$state = ($state * 31 + ord) % 2147483647 foreach split //, $text;
	my $draw = sub { $state = ($state * 48271) % 2147483647; return $state % $_[0]; };
	my $bytes = answer(defined $request->{input} ? embeddings($inputs, '[0.1,-2e-3]') : completion('"a \u00e9 b"'));
	my @odd = ("\0", "\n", "\r\n", '"', '\\', '{', '}', '[', ']', ',', ':', 'e', '-', '9' x 40, "\xff", '\\ud800');
	foreach (0 .. $draw->(4))
	{
		my $at = $draw->(length $bytes);
		my $n = 1 + $draw->(8);
		my $what = $draw->(4);
		if ($what == 0) { substr($bytes, $at, 1) = chr $draw->(256); }
		elsif ($what == 1) { substr($bytes, $at, $n) = ''; }
		elsif ($what == 2) { substr($bytes, $at, 0) = substr($bytes, $at, $n); }
		else { substr($bytes, $at, 1) = $odd[ $draw->(scalar @odd) ]; }
	}
	$bytes = substr($bytes, 0, $draw->(length $bytes)) if $draw->(5) == 0;
	return [$bytes];
}

my $bomb; # made once, for it takes its time

# What is sent: a string and the connection is kept, a list of one and it is closed, a list and a
# string that is repeated. With the number of inputs.
my %answers = (
	ok => sub { answer(embeddings($_[0], '[0.1,0.2]')) },
	# what the request says: "hex" is the body; "status" and "head" may be given, too
	say => sub { my $r = $_[2]; answer(pack('H*', $r->{hex}), $r->{status}, @{ $r->{head} // [] }) },
	# heads
	endless_head => sub { endless(head('200 OK', 'X-A: b') =~ s/\r\n$//r, "X-Header: aaaaaaaa\r\n" x 100) },
	endless_line => sub { endless("HTTP/1.1 200 OK\r\nX: ", 'a' x 65536) },
	endless_100 => sub { endless('', "HTTP/1.1 100 Continue\r\n\r\n" x 100) },
	many_100 => sub { head('100 Continue') x 50 . answer(embeddings($_[0], '[0.1,0.2]')) },
	http_09 => sub { [ embeddings($_[0], '[1]') ] },
	http_37 => sub { [ "HTTP/3.7 200 OK\r\nContent-Length: 2\r\n\r\n{}" ] },
	rubbish => sub { [ "\0\1\2" x 1000 ] },
	status_000 => sub { answer('{}', '000 What') },
	status_204 => sub { head('204 No Content') },
	status_304 => sub { head('304 Not Modified') },
	status_307 => sub { answer('', '307 There', 'Location: file:///etc/passwd') },
	status_999 => sub { answer('{}', '999 What') },
	wait_a_day => sub { answer('', '429 Busy', 'Retry-After: 86400') },
	wait_minus => sub { answer('', '429 Busy', 'Retry-After: -1') },
	# lengths
	length_short => sub { [ head('200 OK', 'Content-Length: 5') . embeddings($_[0], '[1]') ] },
	length_long => sub { [ head('200 OK', 'Content-Length: 5000') . embeddings($_[0], '[1]') ] },
	length_minus => sub { [ head('200 OK', 'Content-Length: -5') . embeddings($_[0], '[1]') ] },
	length_huge => sub { [ head('200 OK', 'Content-Length: ' . '9' x 30) . '{}' ] },
	chunk_bad => sub { [ head('200 OK', 'Transfer-Encoding: chunked') . "ZZ\r\n{}" ] },
	chunk_huge => sub { [ head('200 OK', 'Transfer-Encoding: chunked') . 'F' x 17 . "\r\n{}" ] },
	endless_body => sub { endless(head('200 OK'), ' ' x 65536) },
	bomb => sub { answer($bomb, '200 OK', 'Content-Encoding: gzip') },
	no_gzip => sub { answer('0123456789', '200 OK', 'Content-Encoding: gzip') },
	# JSON
	deep => sub { answer('{"a":' . '[' x 1000000 . ']' x 1000000 . '}') },
	twice => sub { answer('{"data":[],' . substr(embeddings($_[0], '[1]'), 1)) },
	many_items => sub { answer(embeddings(100000, '[1]')) },
	many_keys => sub { answer('{' . join('', map { qq("k$_":1,) } 1 .. 100000)
		. substr(embeddings($_[0], '[0.1,0.2]'), 1)) },
	no_dims => sub { answer(embeddings($_[0], '[]')) },
	many_dims => sub { answer(embeddings($_[0], '[' . join(',', (0.5) x 200000) . ']')) },
	nan => sub { answer(embeddings($_[0], '[NaN,1]')) },
	huge => sub { answer(embeddings($_[0], '[1e999,1]')) },
	digits => sub { answer(embeddings($_[0], '[0.' . '1' x 5000 . ',1e-999]')) },
	base64_nan => sub { answer(embeddings($_[0], '"AADAfw=="')) },
	base64_odd => sub { answer(embeddings($_[0], '"AAAAAAA="')) },
	usage_nul => sub { answer(embeddings($_[0], '[0.1,0.2]', '{"x":"\u0000"}')) },
	usage_half => sub { answer(embeddings($_[0], '[0.1,0.2]', '{"x":"\ud800"}')) },
	usage_bytes => sub { answer(embeddings($_[0], '[0.1,0.2]', "{\"x\":\"\xff\"}")) },
	usage_number => sub { answer(embeddings($_[0], '[0.1,0.2]', '{"prompt_tokens":1e999999}')) },
	usage_foreign => sub { answer(embeddings($_[0], '[0.1,0.2]', "{\"x\":\"\xe6\x97\xa5\"}")) },
	# texts
	text_bytes => sub { answer(completion("\"a\xff\xfeb\"")) },
	text_nul => sub { answer(completion('"a\u0000b"')) },
	text_half => sub { answer(completion('"a\ud800b"')) },
	text_foreign => sub { answer(completion("\"\xe6\x97\xa5\xe6\x9c\xac\"")) },
	error_foreign => sub { answer("{\"error\":{\"message\":\"\xe6\x97\xa5 broken\"}}", '400 Bad') },
	error_key => sub { answer('{"error":{"message":"' . 'x' x 235 . qq( $_[1]"}}), '400 Bad') },
	error_half_key => sub { answer(qq({"error":{"message":"bad key ) . substr($_[1], 0, 7) . '*' x 12 . '"}}', '401 No') },
	error_timeout => sub { answer('{"error":{"message":"Request timed out: timeout"}}', '500 Bad') },
	error_control => sub { answer("{\"error\":{\"message\":\"a\x1b[31m\xff\"}}", '400 Bad') },
	# streams of events
	stream_ok => sub { answer(events('Hel', 'lo') . ending(), '200 OK') },
	stream_cut => sub { [ head('200 OK', 'Content-Length: 5000') . events('Hel', 'lo') ] },
	stream_role => sub { [ head('200 OK', 'Content-Length: 5000') . events('') ] },
	stream_closed => sub { [ head('200 OK') . events('Hel') ] },
	stream_silent => sub { answer(": ping\n\n") },
	stream_error => sub { answer(events('Hel') . qq(data: {"error":{"message":"out of slots"}}\n\n)) },
	stream_refused => sub { answer(qq(data: {"error":{"message":"out of slots"}}\n\n)) },
	stream_whole_cut => sub { [ head('200 OK', 'Content-Length: 5000') . events('Hel', 'lo') . ending() ] },
	stream_whole_kept => sub { head('200 OK', 'Content-Length: 5000') . events('Hel', 'lo') . ending() },
	stream_line => sub { answer(events('Hel') . 'data: {"x":"' . 'x' x 2**20 . qq("}\n\n) . ending()) },
	stream_rubbish => sub { answer(events('Hel') . "data: rubbish\n\n" . ending()) },
	# raw answers
	raw_nul => sub { answer('{"a":"\u0000"}') },
	raw_half => sub { answer('{"a":"\ud800"}') },
	raw_number => sub { answer('{"a":1e200000}') },
	raw_deep => sub { answer('[' x 100000 . ']' x 100000) },
	raw_two => sub { answer('{} {}') },
	raw_escape => sub { answer('{"a":"\u65e5"}') },
	fuzz => sub { spoilt($_[0], $_[2]) },
	raw_ok => sub { answer('{"a":1,"a":2}') },
	# for probes: what takes its time, and what says which incarnation it is
	silent => sub { endless('', '', 60) },
	half_head => sub { endless("HTTP/1.1 200 OK\r\nX-Incar", '', 60) },
	drip_head => sub { endless('HTTP/1.1 200 OK', "\r", 1) },
	drip_body => sub { endless(head('200 OK', 'Content-Length: 1000000'), 'x', 1) },
	gone => sub { [''] },
	lying_length => sub { endless(head('200 OK', 'Content-Length: 1073741824'), ' ' x 65536) },
	bomb_503 => sub { answer($bomb, '503 Busy', 'Content-Encoding: gzip') },
	to_file => sub { answer('', '302 There', 'Location: file:///etc/passwd') },
	to_metadata => sub { answer('', '307 There', 'Location: http://169.254.169.254/latest') },
	to_trap => sub { answer('', '301 There', "Location: http://127.0.0.1:$_[2]{trap}/health") },
	leads_away => sub { answer('', '200 OK', "Refresh: 0; url=http://127.0.0.1:$_[2]{trap}/", "Alt-Svc: h2=\":$_[2]{trap}\"") },
	says_nul => sub { answer('', '200 OK', "X-Incarnation: a\0b") },
	says_bytes => sub { answer('', '200 OK', "X-Incarnation: \xff\xfe\xc3") },
	says_much => sub { answer('', '200 OK', 'X-Incarnation: ' . 'long' x 10000) },
	says_again => sub { answer('', '200 OK', 'X-Incarnation: ' . Time::HiRes::time()) },
	says_field => sub { answer('{"id":"\ud800\u0000' . "\xff" . '"}') },
	metrics_nul => sub { answer("id{a=\"}\"} \0\xff\n") },
	metrics_cut => sub { answer("id{a=\"") });

# What a GET asks for is the path; /metrics what the server was made with.
sub probe_of
{
	my ($head, $options) = @_;
	my ($name) = $head =~ m{^GET /(\w+)} or return;
	return { model => $name eq 'metrics' ? $options->{metrics} // '' : $name, trap => $options->{trap} };
}

sub serve
{
	my ($connection, $options) = @_;
	my $buffer = '';
	$connection->autoflush(1);
	while (1)
	{
		until ($buffer =~ /\r\n\r\n/) { sysread($connection, $buffer, 65536, length $buffer) or return; }
		my ($head, $rest) = $buffer =~ /^(.*?\r\n\r\n)(.*)$/s;
		my ($length) = $head =~ /^content-length: *(\d+)/im;
		while (length($rest) < ($length // 0)) { sysread($connection, $rest, 65536, length $rest) or return; }
		my $request = probe_of($head, $options) // decode_json(substr($rest, 0, $length));
		$buffer = substr($rest, $length // 0);
		my $inputs = ref $request->{input} eq 'ARRAY' ? @{ $request->{input} } : 1;
		my $does = $answers{ $request->{model} } or return;
		my ($key) = $head =~ /^authorization: *bearer +(\S+)/im;
		my ($sent, $again, $pause) = $does->($inputs, $key // '', $request);
		print $connection ref $sent ? $sent->[0] : $sent or return;
		while (defined $again)
		{
			return if $pause && IO::Select->new($connection)->can_read($pause); # the client has gone
			print $connection $again or return;
		}
		return if ref $sent;
	}
}

# Options, for probes: metrics (the name of an answer), trap (a port that redirects lead to).
sub new
{
	my ($class, %options) = @_;
	$bomb //= zipped('{"id":"' . 'x' x 2**24 . '"}');
	my $listener =
	  IO::Socket::INET->new(Listen => 128, LocalAddr => '127.0.0.1', Proto => 'tcp', ReuseAddr => 1)
	  or die "cannot listen: $!";
	my $pid = fork // die "fork: $!";
	if ($pid == 0)
	{
		$SIG{CHLD} = 'IGNORE';
		$SIG{PIPE} = 'IGNORE';
		$SIG{TERM} = 'DEFAULT';
		while (1)
		{
			my $connection = $listener->accept or next;
			my $child = fork;
			if (defined $child && $child == 0)
			{
				close $listener;
				eval { serve($connection, \%options) };
				POSIX::_exit(0);
			}
			close $connection;
		}
	}
	return bless { pid => $pid, port => $listener->sockport }, $class;
}

sub url { return "http://127.0.0.1:$_[0]->{port}"; }

sub DESTROY
{
	my ($self) = @_;
	local ($?, $!, $@);
	kill 'TERM', $self->{pid};
	waitpid $self->{pid}, 0;
	return;
}

1;
