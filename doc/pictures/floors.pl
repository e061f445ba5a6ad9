#!/usr/bin/perl
# floors.pl: prints floors.svg, the picture in doc/architecture.md.
#
#     perl doc/pictures/floors.pl > doc/pictures/floors.svg
#
# A row for each folder of src, the highest first, and a column for each part
# of a task's way.  A cell names the files that the call comes to; "^" before
# the first one says that the call comes there by a hook, from the engine or,
# in the column "claim", from command/claim.c.
use strict;
use warnings;

my @columns = ('submit', 'claim', 'heartbeat', 'finish', 'end of the call',
	'commit', 'background');
my @floors = (
	[ 'process', 'launcher, worker, utility hook',
		{ 6 => 'bgw.c' } ],
	[ 'maintenance', 'duties, each batch a transaction',
		{ 6 => 'duty.c batch_run.c wake_turn.c' } ],
	[ 'flow/view', 'instances as users see them',
		{ 1 => '^claim_columns.c' } ],
	[ 'flow/advance', 'what follows in an instance',
		{ 4 => '^advance.c advance_begin.c' } ],
	[ 'flow/run', 'start, choose, end, repair',
		{ 3 => '^state_hook.c move_queue.c', 4 => 'step_make.c' } ],
	[ 'flow/instance', 'rows of an instance',
		{ 4 => 'edge.c' } ],
	[ 'flow/definition', 'templates', {} ],
	[ 'change', 'several tasks at once', {} ],
	[ 'keyed', 'tasks of one key in order',
		{ 0 => '^key_queue.c', 3 => '^key_queue.c', 4 => '^key_queue.c' } ],
	[ 'command', 'SQL functions that change',
		{ 0 => 'submit.c submission.c', 1 => 'claim.c',
			2 => 'registration.c', 3 => 'finish.c', 4 => '^dead_letter.c' } ],
	[ 'diag', 'explain, health, check', {} ],
	[ 'query', 'lists, single tasks, counts', {} ],
	[ 'engine', 'states, keys, limits, claims',
		{ 0 => 'call.c key.c id.c state.c limit.c',
			1 => 'worker.c limit.c dispatch.c lane_scan.c state.c',
			2 => 'worker.c liveness.c cancel_request.c',
			3 => 'failure.c state.c history.c',
			4 => 'state.c call.c', 6 => 'reclaim.c state.c' } ],
	[ 'cache', 'queues, options, roles',
		{ 0 => 'queue.c role.c', 1 => 'queue.c role.c',
			3 => 'role.c' } ],
	[ 'xact', 'notes for commit and abort',
		{ 0 => 'position_note.c', 1 => 'xact.c',
			3 => 'metric_note.c', 5 => 'xact.c count_note.c metric_note.c position_note.c' } ],
	[ 'store', 'rows, archive, large values',
		{ 0 => 'large.c row.c', 1 => 'row.c large.c',
			3 => 'pkey_lookup.c row.c', 4 => 'multi_insert.c',
			6 => 'row.c' } ],
	[ 'shared', 'hints in shared memory',
		{ 1 => 'claim_ring.c dead_range.c reservation.c',
			2 => 'heartbeat.c', 3 => 'running.c',
			5 => 'counter.c metric.c running.c dead_range.c claim_ring.c wake.c notify_flag.c',
			6 => 'running.c' } ],
	[ 'base', 'tools without state', {} ]);

my ($left, $width, $gutter, $top, $line) = (222, 146, 32, 58, 15);
my $right = $left + $width * @columns;
my (@boxes, @lines, @rows);
my %ways = map { $_ => [] } 0 .. $#columns;    # boxes, from above
my $y = $top;

for my $n (0 .. $#floors)
{
	my ($folder, $what, $cells) = @{ $floors[$n] };
	my $most = 1;
	for my $files (values %$cells)
	{
		my $count = () = $files =~ /\S+/g;
		$most = $count if $count > $most;
	}
	my $height = $most * $line + 17;
	$height = 36 if $height < 36;
	push @rows, sprintf '<rect class="%s" x="12" y="%d" width="%d" height="%d"/>',
		$n % 2 ? 'odd' : 'even', $y, $right - 18, $height;
	push @rows, sprintf '<text class="folder" x="22" y="%d">%s/</text>', $y + 16, $folder;
	push @rows, sprintf '<text class="what" x="22" y="%d">%s</text>', $y + 29, $what;
	for my $column (sort keys %$cells)
	{
		my @files = split ' ', $cells->{$column};
		my $hook = $files[0] =~ s/^\^//;
		my $x = $left + $column * $width;
		my $high = @files * $line + 7;
		push @boxes, sprintf '<rect class="%s" x="%d" y="%d" width="%d" height="%d" rx="4"/>',
			$hook ? 'hook' : 'box', $x, $y + 5, $width - $gutter, $high;
		for my $i (0 .. $#files)
		{
			push @boxes, sprintf '<text class="file" x="%d" y="%d">%s</text>',
				$x + ($width - $gutter) / 2, $y + 19 + $i * $line, $files[$i];
		}
		push @{ $ways{$column} },
			{ hook => $hook, top => $y + 5, bottom => $y + 5 + $high,
				caller => $folder eq ($column == 1 ? 'command' : 'engine'),
				row => $files[1] && $files[1] eq 'call.c' ? $line : 0 };
	}
	$y += $height;
}

# Calls go down the middle, or past boxes that are none of theirs; hooks go up
# the right side, from what calls them.
for my $column (sort keys %ways)
{
	my ($x, $above, $passed) = ($left + $column * $width);
	my $middle = $x + ($width - $gutter) / 2;
	my ($edge, $side) = ($x + $width - $gutter, $x + $width - $gutter + 7);
	for my $box (@{ $ways{$column} })
	{
		if ($box->{hook} && $above)
		{
			$passed = 1;
			next;
		}
		push @lines, $passed
			? sprintf('<path class="way" d="M%d %d H%d V%d H%d"/>', $x, $above->{bottom} - 8,
				$x - 10, $box->{top} + 11, $x)
			: sprintf('<path class="way" d="M%d %d V%d"/>', $middle, $above->{bottom}, $box->{top})
			if $above && !($above->{hook} && $column != 4);
		($above, $passed) = ($box, 0);
	}
	my ($caller) = grep { $_->{caller} } @{ $ways{$column} };
	push @lines, map { sprintf '<path class="up" d="M%d %d H%d V%d H%d"/>', $edge,
			$caller->{top} + $caller->{row} + 11, $side, $_->{top} + 11, $edge }
		grep { $_->{hook} } @{ $ways{$column} };
}
my $bottom = $y + 44;

print <<"HEAD";
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 $right $bottom" font-family="Helvetica, Arial, sans-serif">
<title>The folders of src, and the way of a task through them</title>
<desc>Printed by doc/pictures/floors.pl.</desc>
<style>
.page { fill: #ffffff; stroke: #c8ccd2 }
.even { fill: #eef2f7 }
.odd { fill: #f8fafc }
.title { font-size: 15px; font-weight: bold; fill: #1b2733; text-anchor: middle }
.folder { font-size: 14px; font-weight: bold; fill: #14406b }
.what { font-size: 11px; fill: #4a5560 }
.file { font-size: 12px; fill: #1b2733; text-anchor: middle }
.note { font-size: 12px; fill: #4a5560 }
.box { fill: #ffffff; stroke: #2f6fab }
.hook { fill: #fff6e5; stroke: #b26a00; stroke-dasharray: 4 3 }
.way { stroke: #2f6fab; fill: none; marker-end: url(#down) }
.up { stroke: #b26a00; fill: none; stroke-dasharray: 4 3; marker-end: url(#up) }
.next { stroke: #4a5560; fill: none; marker-end: url(#on) }
</style>
<defs>
<marker id="down" markerWidth="8" markerHeight="8" refX="7" refY="4" orient="auto"><path d="M0 0 L8 4 L0 8 z" fill="#2f6fab"/></marker>
<marker id="on" markerWidth="8" markerHeight="8" refX="7" refY="4" orient="auto"><path d="M0 0 L8 4 L0 8 z" fill="#4a5560"/></marker>
<marker id="up" markerWidth="8" markerHeight="8" refX="7" refY="4" orient="auto"><path d="M0 0 L8 4 L0 8 z" fill="#b26a00"/></marker>
</defs>
HEAD
printf qq(<rect class="page" x="1" y="1" width="%d" height="%d" rx="8"/>\n), $right - 2, $bottom - 2;
print "$_\n" for @rows;
for my $column (0 .. $#columns)
{
	printf qq(<text class="title" x="%d" y="30">%s</text>\n),
		$left + $column * $width + ($width - $gutter) / 2, $columns[$column];
}
printf qq(<path class="next" d="M%d 44 H%d"/>\n), $left, $right - $gutter;
print "$_\n" for @lines, @boxes;
printf qq(<text class="note" x="22" y="%d">A call goes down (blue).  A dashed box is on a higher floor than its caller, which reaches it through a hook.</text>\n), $y + 18;
printf qq(<text class="note" x="22" y="%d">Files of a box are in the order in which the call comes to them.</text>\n), $y + 34;
print "</svg>\n";
