# One case of the fuzzer: settings, and statements around a query.
#
#   settings     [[name, value], ...] by SET LOCAL; "#n" is the n-th value of an enum. Those that the
#                server does not know are left out.
#   statements   [{sql, compare => ordered | rows | nothing, portal => [rows, times]}, ...]
#   explain      what EXPLAIN is tried on, or nothing
package FuzzCase;

use strict;
use warnings;
use FuzzGrammar;

my @SWITCHES = map { "enable_$_" }
  qw(hashjoin mergejoin nestloop material memoize sort hashagg indexscan seqscan incremental_sort bitmapscan indexonlyscan gathermerge parallel_hash);

sub new
{
	my ($class, $seed, $version) = @_;
	my $g = FuzzGrammar->new($seed, $version);
	my $self = bless { seed => $seed, g => $g, settings => [], statements => [] }, $class;
	$self->settings;
	$g->choose(
		62 => sub { $self->a_select },
		6 => sub { $self->a_cursor },
		7 => sub { $self->a_prepared },
		3 => sub { $self->a_portal },
		3 => sub { $self->a_block },
		2 => sub { $self->a_table },
		19 => sub { $self->a_change });
	return $self;
}

sub set { my ($self, $name, $value) = @_; push @{ $self->{settings} }, [ $name, $value ]; return; }

sub settings
{
	my ($self) = @_;
	my $g = $self->{g};
	$g->chance(.1) && $self->set($_, 'off') for @SWITCHES;
	if ($g->chance(.18))
	{
		$self->set($_, 0) for qw(parallel_setup_cost parallel_tuple_cost min_parallel_table_scan_size min_parallel_index_scan_size);
		$self->set($g->{version} < 160000 ? 'force_parallel_mode' : 'debug_parallel_query', 'on') if $g->chance(.25);
	}
	if ($g->chance(.25))
	{
		$self->set("enable_partitionwise_$_", 'on') for qw(aggregate join);
	}
	if ($g->chance(.03))
	{
		$self->set($_, 0) for qw(jit_above_cost jit_inline_above_cost jit_optimize_above_cost);
		$self->set('jit', 'on');
	}
	$self->set('from_collapse_limit', 1) if $g->chance(.06);
	$self->set('join_collapse_limit', 1) if $g->chance(.06);
	$self->set('geqo_threshold', 2) if $g->chance(.05);
	$self->set('cursor_tuple_fraction', $g->pick('1.0', '0.01')) if $g->chance(.1);
	$self->set('work_mem', '64kB') if $g->chance(.08);
	$self->set('random_page_cost', '0.1') if $g->chance(.1);
	$self->set('pg_inference.dispatch_batch_size', $g->pick(0, 1, 2, 3, 5)) if $g->chance(.25);
	$self->set('pg_inference.streaming_mode', $g->pick(qw(per_row batch))) if $g->chance(.2);
	$self->set('pg_inference.memo_memory', $g->pick('0', '64kB')) if $g->chance(.1);
	$self->set('pg_inference.buffer_memory', '64kB') if $g->chance(.12);
	$self->set('pg_inference.on_error', 'null') if $g->chance(.05);
	$self->set('pg_inference.call_cost', $g->pick(1000, 1000000)) if $g->chance(.12);
	$self->set('pg_inference.hoist_calls', '#' . $g->below(3)) if $g->chance(.5);
	$self->set('pg_inference.place_calls', '#' . $g->below(3)) if $g->chance(.5);
	$self->{role} = 'fz_reader' if $g->chance(.12);
	return;
}

sub add
{
	my ($self, $sql, $compare, %more) = @_;
	push @{ $self->{statements} }, { sql => $sql, compare => $compare // 'nothing', %more };
	return;
}

sub compare { return $_[0]{ordered} ? 'ordered' : 'rows'; }

sub a_select
{
	my ($self) = @_;
	my $query = $self->{g}->select;
	$self->{explain} = $query->{sql};
	$self->add($query->{sql}, compare($query));
	return;
}

sub a_cursor
{
	my ($self) = @_;
	my $g = $self->{g};
	my $query = $g->select(ordered => 1);
	my $scroll = $g->chance(.5) ? 'scroll ' : 'no scroll ';
	$self->{explain} = "declare c ${scroll}cursor for $query->{sql}";
	$self->add($self->{explain});
	my $ways = $scroll eq 'scroll ' ? [ 'fetch 3', 'fetch backward 2', 'fetch last', 'fetch absolute 2', 'fetch first', 'fetch relative -1', 'fetch all', 'move 4' ]
	  : [ 'fetch 1', 'fetch 2', 'fetch 5', 'move 3', 'fetch all' ];
	$self->add($g->pick(@$ways) . ' from c', compare($query)) for 1 .. 2 + $g->below(3);
	return;
}

# Arguments stand for $1 (int) and $2 (text).
sub a_prepared
{
	my ($self) = @_;
	my $g = $self->{g};
	$g->{params} = 1;
	my $query = $g->select;
	$g->{params} = 0;
	$self->set('plan_cache_mode', $g->pick(qw(force_generic_plan force_custom_plan auto)));
	$self->add("prepare s(int, text) as $query->{sql}");
	my @executions = map { 'execute s(' . $g->below(20) . ", '" . $g->pick('x1', 'y1', 'p') . $g->below(5) . "')" } 1 .. 1 + $g->below(2);
	$self->{explain} = $executions[0];
	$self->add($_, compare($query)) for @executions;
	return;
}

sub a_portal
{
	my ($self) = @_;
	my $g = $self->{g};
	my $query = $g->select(ordered => 1);
	$self->{explain} = $query->{sql};
	$self->add($query->{sql}, compare($query), portal => [ 1 + $g->below(6), 1 + $g->below(4) ]);
	return;
}

sub a_block
{
	my ($self) = @_;
	my $g = $self->{g};
	my $query = $g->select(ordered => 1);
	my $exit = $g->chance(.4) ? ' exit when i > ' . $g->below(5) . ';' : '';
	my $extra = $g->pick('', q{a := infer.complete('c', a); }, q{select slow(x) into a from t where id = i + 1; });
	my $handler = $g->chance(.3) ? q{ exception when others then insert into lines (line) values (sqlstate); } : '';
	$self->{explain} = $query->{sql};
	$self->add("do \$do\$ declare r record; a text := 'a'; i int := 0; begin for r in $query->{sql} loop i := i + 1; $extra"
		  . "insert into lines (line) values (r::text || a);$exit end loop;$handler end \$do\$");
	$self->add('select line from lines order by no', 'ordered');
	return;
}

sub a_table
{
	my ($self) = @_;
	my $query = $self->{g}->select;
	my $names = join(', ', map { "c$_" } 1 .. $query->{columns});
	$self->{explain} = "create temp table made($names) as $query->{sql}";
	$self->add($self->{explain});
	$self->add('select * from made', 'rows');
	delete $self->{role};
	return;
}

#
# INSERT, UPDATE, DELETE, MERGE
#

my %TARGETS = (
	sink => { text => ['e'], int => [ 'id', 'n' ] },
	psink => { text => ['e'], int => [ 'id', 'n' ] },
	t => { text => [ 'x', 'y' ], int => [ 'id', 'g' ] },
	p => { text => ['x'], int => [ 'id', 'k' ] },
	h => { text => ['x'], int => [ 'id', 'k' ] });

sub returning
{
	my ($self, @scope) = @_;
	my $g = $self->{g};
	return '' if $g->chance(.4);
	return ' returning ' . join(', ', "$scope[0][0].id", map { $g->text(\@scope, 2) } 1 .. 1 + $g->below(2));
}

sub a_change
{
	my ($self) = @_;
	my $g = $self->{g};
	$g->{alone} = 0;
	my ($target, $sql) = $g->choose(
		7 => sub { $self->insert_select },
		2 => sub { $self->insert_values },
		8 => sub { $self->update },
		5 => sub { $self->delete },
		6 => sub { $self->merge });
	my $compare = $sql =~ / returning / ? 'rows' : 'nothing';
	if ($compare eq 'rows' && $g->chance(.2))
	{
		my ($columns) = $sql =~ / returning (.*)$/;
		my $scope = [ [ 'd', { text => ['c'], int => ['id'] } ] ];
		$sql =~ s/ returning .*$//;
		my ($alias) = $sql =~ /^\w+ (?:into |from )?\w+ (?:as )?(\w+)/;
		$alias = 'm' unless $sql =~ /\bm\b/;
		unless ($sql =~ /^merge/)
		{
			$sql = "with d(id, c) as ($sql returning m.id, " . $g->text([ [ 'm', $TARGETS{$target} ] ], 2) . ') select d.id, '
			  . $g->text($scope, 2) . ' from d where ' . $g->bool($scope, 2);
		}
		else
		{
			$compare = 'nothing';
		}
	}
	$self->{explain} = $sql;
	$self->add($sql, $compare);
	$self->add("select * from $target", 'rows');
	return;
}

sub insert_select
{
	my ($self) = @_;
	my $g = $self->{g};
	my $target = $g->pick(qw(sink sink psink));
	my $table = $g->pick(qw(t b p h nn));
	my $columns = { t => { text => [ 'x', 'y' ], int => [ 'id', 'g' ] }, b => { text => ['txt'], int => [ 'id', 'tid' ] }, nn => { text => ['x'], int => ['id'] } }->{$table}
	  || { text => ['x'], int => [ 'id', 'k' ] };
	my $sc = [ [ 'q', $columns ] ];
	my $own = [ [ 'm', $TARGETS{$target} ] ];
	my $conflict = $g->chance(.55);
	my $id = $conflict ? 'q.id' : '100 + q.id';
	my $sql = "insert into $target as m (id, e, n) select $id, " . $g->text($sc, 3) . ', ' . $g->int($sc, 2) . " from $table q where "
	  . ($g->chance(.6) ? $g->bool($sc, 2) . ' and ' : '') . 'q.id < ' . (5 + $g->below(25));
	$sql .= $g->pick('', '', ' order by q.id desc', ' order by q.id limit 7');
	if ($conflict)
	{
		my $both = [ @$own, [ 'excluded', $TARGETS{$target} ] ];
		$sql .= ' on conflict (id) do ' . ($g->chance(.2) ? 'nothing'
			: 'update set e = ' . $g->text($both, 2) . ($g->chance(.4) ? ', n = ' . $g->int($both, 2) : '')
			  . ($g->chance(.4) ? ' where ' . $g->bool($both, 2) : ''));
	}
	return ($target, $sql . $self->returning(@$own));
}

sub insert_values
{
	my ($self) = @_;
	my $g = $self->{g};
	my $target = $g->pick(qw(sink psink));
	my @rows = map { '(' . (100 + $_ * 7) . ', ' . $g->text([], 2) . ', ' . $g->pick('default', $g->below(9), $g->int([], 1)) . ')' } 1 .. 1 + $g->below(4);
	return ($target, "insert into $target as m (id, e, n) values " . join(', ', @rows) . $self->returning([ 'm', $TARGETS{$target} ]));
}

# A source to join a target's rows with, one row for each at most.
sub partner
{
	my ($self) = @_;
	my $g = $self->{g};
	return $g->choose(
		3 => sub { ('t q', [ 'q', { text => [ 'x', 'y' ], int => [ 'id', 'g' ] } ]) },
		2 => sub { ('p q', [ 'q', { text => ['x'], int => [ 'id', 'k' ] } ]) },
		2 => sub {
			my $sc = [ [ 's', { text => [ 'x', 'y' ], int => [ 'id', 'g' ] } ] ];
			('(select s.id, ' . $g->text($sc, 2) . ' as e from t s where ' . $g->bool($sc, 2) . $g->pick('', ' offset 0', ' order by s.id limit 9') . ') q',
				[ 'q', { text => ['e'], int => ['id'] } ]);
		});
}

sub update
{
	my ($self) = @_;
	my $g = $self->{g};
	my $target = $g->pick(keys_of(\%TARGETS));
	my $own = [ 'm', $TARGETS{$target} ];
	my ($from, @partner) = $g->chance(.4) ? $self->partner : ();
	my $sc = [ $own, @partner ];
	my ($text) = @{ $own->[1]{text} };
	my $int = $own->[1]{int}[1];
	my $z = [ 'z', { text => ['txt'], int => ['tid'] } ];
	my $set = $g->choose(
		5 => sub { "$text = " . $g->text($sc, 3) },
		2 => sub { "$text = " . $g->text($sc, 2) . ", $int = " . $g->int($sc, 2) },
		1 => sub { "$int = " . $g->int($sc, 2) },
		1 => sub { "($text, $int) = (select " . $g->text($sc, 2) . ', ' . $g->int($sc, 2) . ')' },
		1 => sub { "($text, $int) = (select max(" . $g->own($z, $g->text([ @$sc, $z ], 2)) . '), count(*) from b z where z.tid = m.id)' });
	my $where = ' where ' . ($from ? 'q.id = m.id and ' : '') . ($g->chance(.6) ? $g->bool($sc, 2) . ' and ' : '') . 'm.id < ' . (5 + $g->below(25));
	return ($target, "update $target m set $set" . ($from ? " from $from" : '') . $where . $self->returning(@$sc));
}

sub delete
{
	my ($self) = @_;
	my $g = $self->{g};
	my $target = $g->pick(keys_of(\%TARGETS));
	my $own = [ 'm', $TARGETS{$target} ];
	my ($from, @partner) = $g->chance(.4) ? $self->partner : ();
	my $sc = [ $own, @partner ];
	return ($target, "delete from $target m" . ($from ? " using $from" : '') . ' where ' . ($from ? 'q.id = m.id and ' : '')
		  . $g->bool($sc, 2) . ' and m.id < ' . (5 + $g->below(25)) . $self->returning(@$sc));
}

sub merge
{
	my ($self) = @_;
	my $g = $self->{g};
	my $target = $g->pick(qw(sink psink));
	my $own = [ 'm', $TARGETS{$target} ];
	my ($from, $partner) = $self->partner;
	my $both = [ $own, $partner ];
	my $sql = "merge into $target m using $from on m.id = q.id" . ($g->chance(.3) ? ' and ' . $g->bool($both, 2) : '');
	my $condition = sub { $g->chance(.4) ? ' and ' . $g->bool($_[0], 2) : '' };
	my $lossy = $sql =~ / and /; # then a row may be there already: those without a partner are left alone
	$sql .= ' when matched and ' . $g->bool($both, 2) . ' then ' . $g->pick('delete', 'do nothing', 'update set n = ' . $g->int($both, 2)) if $g->chance(.4);
	$sql .= ' when matched' . $condition->($both) . ' then update set e = ' . $g->text($both, 2) if $g->chance(.8);
	$sql .= ' when not matched' . $condition->([$partner]) . ' then '
	  . ($lossy ? 'do nothing' : 'insert (id, e, n) values (q.id, ' . $g->text([$partner], 2) . ', ' . $g->int([$partner], 1) . ')');
	return ($target, $sql . ($g->{version} >= 170000 ? $self->returning($own) : ''));
}

sub keys_of { return sort keys %{ $_[0] }; }

# What a person can paste into psql.
sub script
{
	my ($self) = @_;
	return join('', map { "$_;\n" } 'begin', (map { "set local $_->[0] = '$_->[1]'" } @{ $self->{settings} }),
		($self->{role} ? "set local role $self->{role}" : ()),
		(map { $_->{portal} ? "$_->{sql} -- $_->{portal}[1] times $_->{portal}[0] rows of a portal" : $_->{sql} } @{ $self->{statements} }), 'rollback');
}

1;
