# Random queries: expressions, sources, SELECTs.
#
# What a query answers must follow from SQL alone, else the fuzzer would report PostgreSQL's own
# freedom: LIMIT and windows get a total order, aggregates that depend on the order of rows have
# one, and no sum is of floating-point numbers. A statement that fails must not do so by chance
# either: remote failures, division and brittle() come in queries of one source only, mostly behind a
# guard, for in a join it depends on the plan whether a row that finds no partner is looked at.
#
# A scope is a list of sources: [alias, {type => [columns]}, [key columns]]. The key identifies a
# row of the source, or is missing.
package FuzzGrammar;

use strict;
use warnings;

my %TABLES = (
	t => [ { text => [ 'x', 'y' ], int => [ 'id', 'g' ], float => ['v'] }, ['id'] ],
	b => [ { text => ['txt'], int => [ 'id', 'tid' ] }, ['id'] ],
	p => [ { text => ['x'], int => [ 'id', 'k' ] }, ['id'] ],
	h => [ { text => ['x'], int => [ 'id', 'k' ] }, ['id'] ],
	nn => [ { text => ['x'], int => ['id'] }, ['id'] ],
	lab => [ { text => ['name'], int => ['n'] }, ['n'] ],
	rl => [ { text => ['x'], int => [ 'id', 'g' ] }, ['id'] ],
	bad => [ { text => ['x'], int => ['id'], bool => ['ok'] }, ['id'] ],
	wide => [ { text => ['x'], int => ['id'] }, ['id'] ],
	chats => [ { text => [], int => ['id'], json => ['m'] }, ['id'] ],
	big => [ { text => ['x'], int => [ 'id', 'k' ] }, ['id'] ],
	vw => [ { text => ['e'], int => [ 'id', 'g' ] }, ['id'] ],
	vwsb => [ { text => ['e'], int => [ 'id', 'g' ] }, ['id'] ],
	vwagg => [ { text => ['e'], int => [ 'id', 'n' ] }, ['id'] ],
	sink => [ { text => ['e'], int => [ 'id', 'n' ] }, ['id'] ],
	psink => [ { text => ['e'], int => [ 'id', 'n' ] }, ['id'] ]);

# The wrappers of fixture.sql, and what they stand for. plw() is not inlined, so that the planner
# would ask it if its argument were a constant, or became one.
my %CALLS = (
	slow => q{infer.complete('c', %s)},
	slow2 => q{infer.complete('c', %s || %s)},
	nslow => q{coalesce(infer.complete('c', %s), 'none')},
	score => q{((infer.embed('e', %s, '{"dimensions": 2}'))[1]::float8 / 2 + 0.5)},
	keep => q{((infer.embed('e', %s, '{"dimensions": 3}'))[1] > -0.3)},
	vec => q{infer.embed('e', %s, '{"dimensions": 3}')},
	tried => q{(infer.try_complete('c', %s)).value},
	says => q{infer.chat('c', jsonb_build_array(jsonb_build_object('role', 'user', 'content', coalesce(%s, 'nothing'))))},
	raw => q{(infer.call('c', jsonb_build_object('prompt', coalesce(%s, 'nothing')), '{"path": "/completions"}') #>> '{choices,0,text}')});

sub new
{
	my ($class, $seed, $version) = @_;
	srand($seed);
	my $self = bless { version => $version, names => 0, params => 0 }, $class;
	return $self;
}

sub chance { return rand() < $_[1]; }
sub below { return int rand $_[1]; }

sub pick
{
	my ($g, @list) = @_;
	return $list[ rand @list ];
}

# choose(WEIGHT => sub, ...) calls one of them.
sub choose
{
	my ($g, @list) = @_;
	my $sum = 0;
	$sum += $list[ 2 * $_ ] for 0 .. $#list / 2;
	my $at = rand $sum;
	for (0 .. $#list / 2)
	{
		$at -= $list[ 2 * $_ ];
		return $list[ 2 * $_ + 1 ]->() if $at < 0;
	}
	return $list[-1]->();
}

sub name { return 'q' . ++$_[0]{names}; }

sub columns
{
	my ($g, $scope, $type) = @_;
	return map { my $s = $_; map { "$s->[0].$_" } @{ $s->[1]{$type} || [] } } @$scope;
}

sub is_constant { return $_[1] !~ /\b(?!infer\.)\w+\.[a-z]/; }

sub call
{
	my ($g, $function, @arguments) = @_;
	if ($function eq 'slow' && !$g->{constant} && $g->chance(.04) && !grep { $g->is_constant($_) || /coalesce|case|\$/ } @arguments)
	{
		$g->{plw} = 1;
		return sprintf('plw(%s)', @arguments);
	}
	return sprintf($CALLS{$function}, @arguments) if $g->chance(.4);
	return "$function(" . join(', ', @arguments) . ')';
}

#
# Expressions. The depth bounds their size.
#

sub column_or
{
	my ($g, $scope, $type, $other) = @_;
	my @columns = $g->columns($scope, $type);
	return @columns ? $g->pick(@columns) : $other->();
}

sub text_leaf
{
	my ($g, $scope) = @_;
	return '$2::text' if $g->{params} && $g->chance(.2);
	return $g->column_or($scope, 'text', sub { $g->chance(.8) && $g->columns($scope, 'int') ? $g->int_leaf($scope) . '::text' : q{'k'} });
}

sub text
{
	my ($g, $sc, $d) = @_;
	return $g->text_leaf($sc) if $d <= 0 || $g->chance(.2);
	my $text = sub { $g->text($sc, $d - 1 - ($_[0] || 0)) };
	return $g->choose(
		40 => sub { $g->call('slow', $text->()) },
		10 => sub { $g->call('slow2', $text->(), $text->(1)) },
		6 => sub { $g->call('nslow', $text->()) },
		4 => sub { $g->call('tried', $text->()) },
		3 => sub { $g->call('says', $text->()) },
		3 => sub { $g->call('raw', $text->()) },
		3 => sub { "infer.complete(prompt => " . $text->() . q{, model => 'c', parameters => '{"max_tokens": 2}')} },
		2 => sub { "infer.complete('c', " . $text->() . q{, '{}', '{"on_error": "null"}')} },
		2 => sub { "(infer.try_complete('c', " . $text->() . '))' . $g->pick(qw(.error .reason .execution .http_status::text)) },
		2 => sub { "infer.chat('c', " . $g->json($sc, $d - 1) . ')' },
		8 => sub { '(' . $text->() . ' || ' . $text->(1) . ')' },
		9 => sub { 'case when ' . $g->bool($sc, $d - 1) . ' then ' . $text->() . ' else ' . $text->(1) . ' end' },
		3 => sub { 'case when ' . $g->bool($sc, $d - 2) . ' then ' . $text->() . ' when ' . $g->bool($sc, $d - 1) . ' then ' . $text->(1) . ' end' },
		7 => sub { 'case ' . $text->() . ' when ' . $text->(1) . ' then ' . $text->() . q{ when 'y1' then } . $text->() . ' end' },
		7 => sub { 'coalesce(' . $text->() . ', ' . $text->() . ')' },
		6 => sub { 'nullif(' . $text->() . ', ' . $text->(1) . ')' },
		6 => sub { $g->pick('greatest', 'least') . '(' . $text->() . ', ' . $text->(1) . ')' },
		7 => sub { $g->scalar_select($sc, $d - 1) },
		6 => sub { $g->call('slow', q{'c} . $g->below(3) . q{'}) },
		4 => sub { "left(" . $text->() . ', ' . (1 + $g->below(5)) . ')' },
		2 => sub { '(array[' . $text->() . ', ' . $text->(1) . '])[' . $g->int($sc, 0) . ' % 3]' },
		2 => sub { 'array_to_string(array(' . $g->one_column($sc, $d - 1, 1) . q{), ',', '-')} },
		1 => sub { "concat(" . $text->() . ', ' . $g->int($sc, $d - 2) . ', ' . $text->(1) . ')' },
		1 => sub { 'format(' . q{'%s-%s', } . $text->() . ', ' . $text->() . ')' },
		1 => sub { $text->() . '::varchar(6)::text' });
}

sub float
{
	my ($g, $sc, $d) = @_;
	return $g->choose(
		8 => sub { $g->call('score', $g->text($sc, $d - 1)) },
		2 => sub { '(' . $g->call('score', $g->text($sc, $d - 1)) . ' * 2)' },
		1 => sub { $g->column_or($sc, 'float', sub { $g->call('score', $g->text($sc, $d - 1)) }) });
}

sub vec
{
	my ($g, $sc, $d) = @_;
	return $g->column_or($sc, 'vec', sub { $g->call('vec', $g->text($sc, $d - 1)) }) if $g->chance(.3);
	return $g->call('vec', $g->text($sc, $d - 1));
}

sub json
{
	my ($g, $sc, $d) = @_;
	return $g->column_or($sc, 'json', sub { $g->json($sc, $d) }) if $g->columns($sc, 'json') && $g->chance(.5);
	return q{jsonb_build_array(jsonb_build_object('role', 'user', 'content', coalesce(} . $g->text($sc, $d - 1) . q{, 'nothing')))};
}

sub int_leaf
{
	my ($g, $scope) = @_;
	return '$1::int' if $g->{params} && $g->chance(.2);
	return $g->column_or($scope, 'int', sub { $g->below(20) });
}

sub int
{
	my ($g, $sc, $d) = @_;
	return $g->chance(.05) ? $g->below(20) : $g->int_leaf($sc) if $d <= 0 || $g->chance(.55);
	my $risky = $g->{alone} ? .6 : 0;
	return $g->choose(
		3 => sub { '(' . $g->int($sc, $d - 1) . ' + ' . $g->below(4) . ')' },
		4 => sub { 'length(' . $g->text($sc, $d - 1) . ')' },
		$risky => sub { '(100 / ' . $g->int($sc, 0) . ')' },
		$risky => sub { 'brittle(' . $g->int($sc, 0) . ')' },
		1 => sub { '(' . $g->bool($sc, $d - 1) . ')::int' },
		3 => sub { '(' . $g->int($sc, $d - 1) . ' % 7)' });
}

sub condition_of_source
{
	my ($g, $sc) = @_;
	return $g->int_leaf($sc) . $g->pick(' < ', ' > ', ' <> ', ' <= ') . $g->below(50);
}

sub bool
{
	my ($g, $sc, $d) = @_;
	return $g->condition_of_source($sc) if $d <= 0;
	my $text = sub { $g->text($sc, $d - 1 - ($_[0] || 0)) };
	my $not = $g->pick('', '', 'not ');
	return $g->choose(
		26 => sub { $g->call('keep', $text->()) },
		8 => sub { $g->float($sc, $d - 1) . $g->pick(' > ', ' <= ') . '0.' . (1 + $g->below(9)) },
		6 => sub { $g->int($sc, $d - 1) . $g->pick(' < ', ' = ') . $g->int($sc, $d - 1) },
		6 => sub { $text->() . $g->pick(' <> ', ' < ', ' is distinct from ') . $text->(1) },
		8 => sub { '(' . $g->bool($sc, $d - 1) . ' and ' . $g->bool($sc, $d - 1) . ')' },
		13 => sub { '(' . $g->bool($sc, $d - 1) . ' or ' . $g->bool($sc, $d - 1) . ')' },
		6 => sub { 'not (' . $g->bool($sc, $d - 1) . ')' },
		7 => sub { $not . 'exists (' . $g->correlated($sc, $d - 1) . ')' },
		4 => sub { $text->() . " ${not}in (select name from lab where n < " . $g->below(50) . ')' },
		4 => sub { $text->() . " ${not}in (" . $g->one_column($sc, $d - 1) . ')' },
		2 => sub { $g->int($sc, $d - 1) . " ${not}in (select tid from b where txt is not null and " . $g->bool([ [ 'b', @{ $TABLES{b} } ] ], $d - 2) . ')' },
		3 => sub { $text->() . q{ = any(array['y1', } . $text->(1) . '])' },
		1 => sub { $text->() . $g->pick(' > all (', ' = any (', ' <> all (') . $g->one_column($sc, $d - 1) . ')' },
		3 => sub { $text->() . " is ${not}null" },
		3 => sub { $text->() . " ${not}between " . $text->(1) . ' and ' . $text->(1) },
		2 => sub { '(' . $text->() . ', ' . $g->int($sc, 0) . ')' . $g->pick(' < ', ' = ', ' <> ') . '(' . $text->(1) . ', ' . $g->int($sc, 0) . ')' },
		2 => sub { '(' . $g->bool($sc, $d - 1) . ') is ' . $g->pick('true', 'not true', 'false', 'not false', 'unknown') },
		2 => sub { $g->vec($sc, $d - 1) . $g->pick(' <> ', ' < ') . $g->vec($sc, $d - 1) },
		1 => sub { "(infer.try_complete('c', " . $text->() . ')).error is ' . $g->pick('null', 'not null') },
		1 => sub { $text->() . $g->pick(q{ like '%a%'}, q{ ~ '[aeiou]$'}) },
		1 => sub { '(' . $text->() . ', ' . $text->() . ') is ' . $g->pick('null', 'not null') },
		4 => sub { $g->column_or($sc, 'bool', sub { $g->condition_of_source($sc) }) },
		5 => sub { $g->condition_of_source($sc) });
}

# A sub-select for EXISTS.
sub correlated
{
	my ($g, $sc, $d) = @_;
	my $table = $g->pick(qw(b b t p nn));
	my $own = [ $g->name, @{ $TABLES{$table} } ];
	my $link = $table eq 'b' ? 'tid' : 'id';
	my $rest = $g->pick('', '', ' limit 1', ' offset 0');
	return "select 1 from $table $own->[0] where $own->[0].$link = " . $g->int($sc, 0) . ' and ' . $g->bool([ @$sc, $own ], $d - 1) . $rest;
}

# An aggregate of outer columns only would be the outer query's.
sub own
{
	my ($g, $source, $expression) = @_;
	return $expression if $expression =~ /\b$source->[0]\./;
	my ($column) = map { $g->columns([$source], $_) } qw(int text);
	return "($expression || $column)";
}

sub scalar_select
{
	my ($g, $sc, $d) = @_;
	my $table = $g->pick(qw(b b t p nn));
	my $own = [ $g->name, @{ $TABLES{$table} } ];
	my $link = "$own->[0]." . ($table eq 'b' ? 'tid' : 'id');
	my $inner = [ @$sc, $own ];
	my $item = $g->own($own, $g->chance(.5) ? $g->text($inner, $d - 1) : $g->text([$own], 0));
	my $where = "where $link = " . $g->int($sc, 0);
	$where .= ' and ' . $g->bool($inner, $d - 1) if $g->chance(.3);
	return $g->choose(
		4 => sub { '(select ' . $g->pick('min', 'max') . "($item) from $table $own->[0] $where)" },
		2 => sub { "(select string_agg($item, ',' order by $item) from $table $own->[0] $where)" },
		2 => sub { "(select $item from $table $own->[0] $where order by $own->[0].id limit 1)" },
		1 => sub { "(select count($item)::text from $table $own->[0] $where)" });
}

# A sub-select of one text column, for IN, ANY and ARRAY.
sub one_column
{
	my ($g, $sc, $d, $ordered) = @_;
	my $table = $g->pick(qw(b t p nn lab));
	my $own = [ $g->name, @{ $TABLES{$table} } ];
	my $inner = $g->chance(.4) ? [ @$sc, $own ] : [$own];
	my $item = $g->text([$own], $d);
	my $key = "$own->[0].$own->[2][0]";
	return "select $item from $table $own->[0] where $key < " . (2 + $g->below(15)) . ' and ' . $g->bool($inner, $d - 1)
	  . ($ordered ? " order by $key" : '');
}

#
# Sources
#

sub source
{
	my ($g, $d, $outer) = @_;
	my $name = $g->name;
	if ($d <= 0 || $g->chance(.68))
	{
		my $table = $g->choose(
			30 => sub { $g->pick(qw(t b)) },
			18 => sub { $g->pick(qw(p h nn lab)) },
			4 => sub { $g->pick(qw(rl rl vw vwsb vwagg)) },
			1 => sub { 'chats' },
			($g->{alone} ? 6 : 0) => sub { 'bad' },
			.7 => sub { 'big' },
			.15 => sub { 'wide' });
		my ($columns, $key) = @{ $TABLES{$table} };
		my $sample = $table =~ /^[tb]$/ && $g->chance(.02) ? ' tablesample system (100)' : '';
		return { sql => "$table $name$sample", scope => [ $name, $columns, $key ], table => $table };
	}
	return $g->choose(
		20 => sub { $g->sub_source($name, $d, $outer) },
		2 => sub { { sql => "generate_series(1, " . (2 + $g->below(9)) . ") $name(i)", scope => [ $name, { int => ['i'] }, ['i'] ] } },
		2 => sub {
			my @rows = map { "($_, '" . $g->pick('x', 'y', 'v') . "$_')" } 1 .. 2 + $g->below(5);
			{ sql => '(values ' . join(', ', @rows) . ") $name(i, c)", scope => [ $name, { int => ['i'], text => ['c'] }, ['i'] ] };
		},
		1 => sub {
			my @rows = map { "($_, " . $g->text([], 2) . ')' } 1 .. 2 + $g->below(3);
			{ sql => '(values ' . join(', ', @rows) . ") $name(i, c)", scope => [ $name, { int => ['i'], text => ['c'] }, ['i'] ] };
		},
		@$outer
		? (
			3 => sub { { sql => 'lateral ' . $g->call('slow', $g->text($outer, 1)) . " $name(c)", scope => [ $name, { text => ['c'] } ], lateral => 1 } },
			2 => sub {
				my @rows = map { '(' . $g->text($outer, 2) . ", $_)" } 1 .. 1 + $g->below(3);
				{ sql => 'lateral (values ' . join(', ', @rows) . ") $name(c, i)", scope => [ $name, { text => ['c'], int => ['i'] } ], lateral => 1 };
			},
			2 => sub { { sql => "lateral unnest(array[" . $g->text($outer, 2) . ', ' . $g->text($outer, 1) . "]) $name(c)", scope => [ $name, { text => ['c'] } ], lateral => 1 } })
		: ());
}

sub sub_source
{
	my ($g, $name, $d, $outer) = @_;
	my $lateral = @$outer && $g->chance(.4);
	my @types = ('text', 'int', grep { $g->chance(.12) } qw(bool float vec));
	my $sql = $g->sub_select($d - 1, $lateral ? $outer : [], @types);
	my (%columns, $n);
	push @{ $columns{$_} }, 'c' . ++$n for @types;
	return {
		sql => ($lateral ? 'lateral ' : '') . "($sql) $name(" . join(', ', map { "c$_" } 1 .. @types) . ')',
		scope => [ $name, \%columns ],
		lateral => $lateral };
}

sub expression
{
	my ($g, $type, $sc, $d) = @_;
	return $g->$type($sc, $d);
}

# A column is no constant where there may be a plw() of it.
sub column_expression
{
	my ($g, $type, $sc, $d) = @_;
	my $expression = $g->expression($type, $sc, $d);
	return $expression if !$g->is_constant($expression);
	return $expression if !$g->{plw} && $g->chance(.5) && ($g->{constant} = 1);
	my @own = ($g->columns($sc, 'int'));
	return $expression unless @own;
	return $type eq 'text' ? "($expression || $own[0])" : $type eq 'int' ? "($expression + $own[0])" : $expression;
}

sub order_by_all
{
	my ($g, $count) = @_;
	return ' order by ' . join(', ', map { $_ . $g->pick('', '', '', ' desc', ' nulls first', ' desc nulls last') } 1 .. $count);
}

# SELECT for a FROM clause, with columns of these types.
sub sub_select
{
	my ($g, $d, $outer, @types) = @_;
	my $sources = $g->{alone} || $g->chance(.7) ? 1 : 2;
	my ($from, $own) = $g->from($d, $sources, $outer);
	my $sc = [ @$own, @$outer ];
	my $where = $g->chance(.6) ? ' where ' . $g->bool($sc, 2) : '';
	my $sql;
	if ($g->chance(.2))
	{
		my @items = map {
			    $_ eq 'text' ? 'max(' . $g->own($own->[0], $g->text($sc, 2)) . ')'
			  : $_ eq 'int' ? 'count(*)::int'
			  : $_ eq 'bool' ? 'bool_or(' . $g->bool($own, 2) . ')'
			  : $_ eq 'float' ? 'min(' . $g->float($own, 2) . ')'
			  : 'max(' . $g->vec($own, 2) . ')'
		} @types;
		$_ .= ' filter (where ' . $g->bool($sc, 1) . ')' for grep { /\)$/ && $g->chance(.2) } @items;
		my $group = $g->column_expression('int', $own, 1);
		$sql = 'select ' . join(', ', @items) . " from $from$where";
		$sql .= " group by $group" unless $g->is_constant($group) || $g->chance(.2);
	}
	else
	{
		$sql = 'select ' . ($g->chance(.1) ? 'distinct ' : '') . join(', ', map { $g->column_expression($_, $sc, 2) } @types) . " from $from$where";
		if ($g->chance(.08))
		{
			my ($from2, $own2) = $g->from(0, 1, $outer);
			$sql .= $g->pick(' union all ', ' union all ', ' union ', ' except ', ' intersect ') . 'select '
			  . join(', ', map { $g->column_expression($_, [ @$own2, @$outer ], 2) } @types) . " from $from2";
		}
	}
	return $sql . $g->choose(
		5 => sub { '' },
		2 => sub { ' offset 0' },
		3 => sub { $g->order_by_all(scalar @types) . ' limit ' . (1 + $g->below(20)) },
		1 => sub { $g->order_by_all(scalar @types) . ' offset ' . $g->below(4) });
}

# A FROM clause of some sources, and its scope.
sub from
{
	my ($g, $d, $count, $outer) = @_;
	my $first = $g->source($d, $outer);
	my ($sql, @scope) = ($first->{sql}, $first->{scope});
	while (@scope < $count)
	{
		my $next = $g->source($d, [ @scope, @$outer ]);
		my $type = $next->{lateral} ? $g->pick('join', 'join', 'left join') : $g->pick('join', 'join', 'join', 'left join', 'left join', 'right join', 'full join', 'cross join');
		# it must be able to be a merge or hash join
		$type = 'left join' if $type eq 'full join' && !($g->columns(\@scope, 'int') && $g->columns([ $next->{scope} ], 'int'));
		if ($type eq 'cross join')
		{
			$sql .= " cross join $next->{sql}";
		}
		else
		{
			$sql .= " $type $next->{sql} on " . $g->join_condition($type, \@scope, $next->{scope});
		}
		push @scope, $next->{scope};
	}
	return ($sql, \@scope);
}

sub join_condition
{
	my ($g, $type, $left, $right) = @_;
	my $both = [ @$left, $right ];
	my @left_ints = $g->columns($left, 'int');
	my @right_ints = $g->columns([$right], 'int');
	return $g->pick(@left_ints) . ' = ' . $g->pick(@right_ints) if $type eq 'full join';
	my $on = @right_ints ? $g->int($left, 0) . ' = ' . $g->pick(@right_ints) : 'true';
	return $g->text($left, 2) . ' = ' . $g->text([$right], 2) if $g->chance(.1);
	return $g->bool($both, 2) if $type ne 'right join' && $g->chance(.06);
	return $on . ' and ' . $g->bool($both, 2) if $g->chance(.4);
	return $on;
}

# Bounds the sources, so that a query does not run for ever without InferScan.
sub bounds
{
	my ($g, $scope) = @_;
	my $bound = $g->pick(8, 16, 30);
	return map {
		my ($int) = $g->columns([$_], 'int');
		my $limit = $bound;
		$bound = $g->pick(15, 40, 60);
		$int ? "coalesce($int, 0) < $limit" : ();
	} @$scope;
}

#
# SELECT: { sql, columns, ordered, scope }
#

sub with_clause
{
	my ($g) = @_;
	return ('', undef) unless $g->chance(.14);
	if ($g->chance(.25))
	{
		my $step = $g->text([ [ 'r', { text => ['e'], int => ['n'] } ] ], 2);
		my $more = $g->chance(.4) ? ' and ' . $g->bool([ [ 'r', { text => ['e'], int => ['n'] } ] ], 2) : '';
		my $union = $g->pick('union all', 'union');
		return ("with recursive r(n, e) as (select q.id, " . $g->text([ [ 'q', @{ $TABLES{t} } ] ], 2)
			  . " from t q where q.id < 4 $union select r.n + 5, $step from r where r.n < 25$more) ",
			[ 'r', { text => ['e'], int => ['n'] } ]);
	}
	my $how = $g->pick('', 'materialized ', 'not materialized ');
	return ("with ct(c1, c2) as $how(" . $g->sub_select(1, [], 'text', 'int') . ') ', [ 'ct', { text => ['c1'], int => ['c2'] } ]);
}

sub select
{
	my ($g, %want) = @_;
	my ($with, $cte) = $g->with_clause;
	my $sources = $g->pick(1, 1, 1, 2, 2, 2, 3);
	$g->{alone} = $sources == 1 && !$cte;
	my ($from, $sc) = $g->from(2, $sources, []);
	if ($cte)
	{
		my $twice = $g->chance(.3) ? 2 : 1;
		for my $n (1 .. $twice)
		{
			my $alias = $g->name;
			my ($int) = $g->columns([$cte], 'int');
			$int =~ s/^\w+/$alias/;
			$from .= $g->pick(' join ', ' left join ') . "$cte->[0] $alias on $int = " . $g->int($sc, 0);
			push @$sc, [ $alias, $cte->[1] ];
		}
	}
	my @where = $g->bounds($sc);
	push @where, map { $g->chance(.8) ? $_ : "coalesce($_, true)" } grep { /\.ok$/ && $g->chance(.9) } $g->columns($sc, 'bool');
	push @where, $g->bool($sc, 3) if $g->chance(.75);
	@where = reverse @where if $g->chance(.5);
	my $where = @where ? ' where ' . join(' and ', @where) : '';
	my %query = $g->chance(.24) ? $g->grouped($from, $sc, $where) : $g->plain($from, $sc, $where);
	if (!$query{keyed} && $g->chance(.05))
	{
		my ($from2, $sc2) = $g->from(1, 1, []);
		my $where2 = join(' and ', $g->bounds($sc2));
		$query{types} and $query{sql} = "($query{sql}) " . $g->pick('union', 'union all', 'intersect', 'except', 'except all')
		  . ' (select ' . join(', ', map { $g->expression($_, $sc2, 2) } @{ $query{types} }) . " from $from2" . ($where2 ? " where $where2" : '') . ')';
	}
	$query{sql} = $with . $query{sql};
	return $g->order_and_limit(\%query, $want{ordered});
}

sub order_and_limit
{
	my ($g, $query, $must) = @_;
	return $query unless $must || $g->chance(.6);
	my @keys = $query->{keyed} && ($g->chance(.6) || $query->{unsortable}) ? @{ $query->{keyed} } : ();
	return $query if $query->{unsortable} && !@keys;
	if (@keys)
	{
		unshift @keys, $g->text($query->{scope}, 2) if $g->chance(.25);
		unshift @keys, $g->int($query->{scope}, 0) if $g->chance(.25);
		# a bare number would be a column's
		$query->{sql} .= ' order by ' . join(', ', map { "($_)" =~ /^\(\d+\)$/ ? "$_ + 0" : $_ } @keys) . $g->pick('', ' desc');
	}
	else
	{
		$query->{sql} .= $g->order_by_all($query->{columns});
	}
	$query->{ordered} = 1;
	return $query if $g->chance(.35);
	my $count = 1 + $g->below(15);
	my $offset = $g->chance(.3) ? ' offset ' . $g->below(6) : '';
	$query->{sql} .= $g->choose(
		8 => sub { " limit $count$offset" },
		1 => sub { "$offset fetch first $count rows with ties" },
		1 => sub { $offset },
		1 => sub { $g->{params} ? " limit \$1::int % 9$offset" : " limit (select $count)$offset" });
	return $query;
}

sub aggregate
{
	my ($g, $sc) = @_;
	my $text = sub { $g->text($sc, $_[0] // 2) };
	my $aggregate = $g->choose(
		3 => sub { 'sum(length(' . $text->() . '))' },
		4 => sub { $g->pick('max', 'min', 'count') . '(' . $text->() . ')' },
		2 => sub { 'count(distinct ' . $text->() . ')' },
		2 => sub { my $e = $text->(1); "string_agg($e, ',' order by " . $g->float($sc, 1) . ", $e)" },
		1 => sub { my $e = $text->(); "array_agg(distinct $e order by $e desc)" },
		1 => sub { my $e = $text->(); "jsonb_agg($e order by $e)" },
		1 => sub { $g->pick('bool_and', 'bool_or') . '(' . $g->bool($sc, 2) . ')' },
		1 => sub { 'count(*)' },
		1 => sub { 'avg(' . $g->int($sc, 2) . ')' },
		1 => sub { 'percentile_disc(0.5) within group (order by ' . $g->float($sc, 2) . ')' });
	$aggregate .= ' filter (where ' . $g->bool($sc, 2) . ')' if $g->chance(.15);
	return $g->choose(
		8 => sub { $aggregate },
		1 => sub { $g->call('slow', 'max(' . $text->(1) . ')') },
		1 => sub { 'case when count(*) > 2 then ' . $g->call('slow', 'min(' . $text->(1) . ')') . ' end' });
}

sub grouped
{
	my ($g, $from, $sc, $where) = @_;
	my @groups = map { $g->chance(.6) ? $g->text($sc, 1) : $g->int($sc, 1) } 1 .. $g->below(3);
	@groups = map { $g->is_constant($_) ? ($g->columns($sc, 'int'))[0] || $_ : $_ } @groups;
	# the planner takes two equal ones for one sort key, also where grouping sets make one of them NULL
	my %seen;
	@groups = grep { !$g->is_constant($_) && !$seen{$_}++ } @groups;
	my @items = (@groups, map { $g->aggregate($sc) } 1 .. 1 + $g->below(2));
	my $sql = 'select ' . join(', ', @items) . " from $from$where";
	if (@groups)
	{
		my $list = join(', ', 1 .. @groups);
		$sql .= ' group by ' . $g->choose(
			7 => sub { $list },
			1 => sub { "rollup($list)" },
			1 => sub { "cube($list)" },
			1 => sub { "grouping sets (($list), (1), ())" });
	}
	$sql .= ' having ' . $g->choose(
		2 => sub { $g->call('keep', 'min(' . $g->text($sc, 1) . ')') },
		1 => sub { 'count(*) > 1' },
		1 => sub { 'count(*) > 1 and ' . $g->call('score', 'max(' . $g->text($sc, 1) . ')') . ' > 0.3' })
	  if $g->chance(.3);
	return (sql => $sql, columns => scalar @items, scope => $sc);
}

sub window
{
	my ($g, $sc, @keys) = @_;
	my $partition = $g->chance(.6) ? 'partition by ' . $g->column_expression($g->pick('int', 'text'), $sc, 1) . ' ' : '';
	my $text = $g->text($sc, 2);
	return $g->pick('max', 'min', 'count') . "($text) over ($partition)" if !@keys || $g->chance(.3);
	my $order = 'order by ' . ($g->chance(.3) ? $g->text($sc, 1) . ', ' : '') . join(', ', @keys);
	my $frame = $g->pick('', ' rows between 2 preceding and current row', ' rows between 1 preceding and 1 following exclude current row',
		' groups between 1 preceding and current row');
	return $g->choose(
		3 => sub { $g->pick('row_number', 'rank', 'dense_rank', 'cume_dist') . "() over ($partition$order)" },
		3 => sub { $g->pick('lag', 'lead', 'first_value', 'last_value', 'max', 'min') . "($text) over ($partition$order)" },
		2 => sub { $g->pick('first_value', 'last_value', 'max', 'count') . "($text) over ($partition$order$frame)" },
		1 => sub { 'rank() over (' . $partition . 'order by ' . $g->text($sc, 2) . ')' },
		1 => sub { $g->call('slow', "lag($text) over ($partition$order)") },
		1 => sub { "count(*) filter (where " . $g->bool($sc, 2) . ") over ($partition$order)" });
}

sub item
{
	my ($g, $sc, $types) = @_;
	my $type = $g->choose(8 => sub { 'text' }, 2 => sub { 'int' }, 1 => sub { 'float' }, 2 => sub { 'bool' }, 1 => sub { 'vec' }, 1 => sub { 'other' });
	push @$types, $type;
	return $g->expression($type, $sc, $g->pick(2, 3)) unless $type eq 'other';
	return $g->choose(
		1 => sub { 'row(' . $g->text($sc, 2) . ', ' . $g->int($sc, 1) . ')' },
		1 => sub { "jsonb_build_object('a', " . $g->text($sc, 2) . ", 'b', " . $g->int($sc, 1) . ')' },
		1 => sub { 'array[' . $g->text($sc, 2) . ', ' . $g->text($sc, 1) . ']' },
		1 => sub { 'array(' . $g->one_column($sc, 2, 1) . ')' },
		1 => sub { "(infer.try_embed('e', " . $g->text($sc, 2) . q{, '{"dimensions": 2}')).value} },
		1 => sub { '(' . $g->text($sc, 2) . ' collate "C")' },
		1 => sub { "infer.try_complete('c', " . $g->text($sc, 2) . ') is not null' });
}

sub plain
{
	my ($g, $from, $sc, $where) = @_;
	my @keys = grep { defined } map { my $s = $_; $s->[2] ? map { "$s->[0].$_" } @{ $s->[2] } : undef } @$sc;
	my $keyed = !grep { !$_->[2] } @$sc;
	my @types;
	my @items = map { $g->item($sc, \@types) } 1 .. 1 + $g->below(3);
	my %query = (types => \@types, scope => $sc);
	$query{types} = undef if grep { $_ eq 'other' } @types;
	$query{keyed} = \@keys if $keyed;
	if ($g->chance(.1))
	{
		push @items, $g->window($sc, $keyed ? @keys : ());
		$query{types} = undef;
	}
	my $distinct = '';
	$g->choose(
		80 => sub { },
		9 => sub { $distinct = 'distinct '; delete $query{keyed}; },
		4 => sub {
			push @items, $g->pick("generate_series(1, " . $g->int($sc, 0) . ' % 3)', 'unnest(array[' . $g->text($sc, 2) . ', ' . $g->text($sc, 1) . '])',
				q{unnest(string_to_array(} . $g->text($sc, 2) . q{, ' '))});
			delete @query{qw(keyed types)};
		},
		3 => sub {
			# the first column decides, all columns order
			$distinct = 'distinct on (1) ';
			delete @query{qw(keyed types)};
			$query{on} = 1;
		},
		2 => sub { push @items, $sc->[0][0] if $from !~ /^\(|^lateral/; });
	$query{columns} = @items;
	$query{sql} = "select $distinct" . join(', ', @items) . " from $from$where";
	if ($query{on})
	{
		$query{sql} =~ s/distinct on \(1\)/distinct on ($items[0])/;
		$query{sql} =~ s/^select distinct on \((\d+)\)/select distinct on ($1 + 0)/;
		my $lead = $items[0] =~ /^\d+$/ ? "$items[0] + 0" : $items[0];
		$query{sql} .= ' order by ' . join(', ', $lead, 2 .. @items);
		$query{sql} = "select * from ($query{sql}) d";
	}
	return %query;
}

1;
