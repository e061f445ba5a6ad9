# codes.awk: make the install script of the parts.
#
# awk -f sql/codes.awk src/base/code.h sql/parts/00_head.sql ...
#
# The first file has the codes, "#define TQ_CODE_STATE_DONE 5", or another code
# for the number; in the parts @STATE_DONE@ becomes 5.  An unknown name is an
# error, and so is an incomplete marker.

function fail(what)
{
	print FILENAME ":" FNR ": " what >"/dev/stderr"
	exit 1
}

FNR == 1 {
	files++
}

files == 1 {
	if (NF > 2 && $1 == "#define" && sub(/^TQ_CODE_/, "", $2)) {
		if (sub(/^TQ_CODE_/, "", $3))
			$3 = code[$3]
		if ($3 !~ /^-?[0-9]+$/)
			fail($2 " is no number")
		code[$2] = $3
	}
	next
}

{
	done = ""
	while (match($0, /@[A-Z][A-Z_0-9]*@/)) {
		name = substr($0, RSTART + 1, RLENGTH - 2)
		if (!(name in code))
			fail("there is no code " name)
		done = done substr($0, 1, RSTART - 1) code[name]
		$0 = substr($0, RSTART + RLENGTH)
	}
	if (/@[A-Z]/ || /[A-Z]@/)
		fail("a marker is incomplete")
	print done $0
}
