//! The language itself: operators, macros, errors.

use super::{all_true, check};

#[test]
fn literals_and_operators() {
    all_true(&[
        "1 + 2 * 3 == 7",
        "(1 + 2) * 3 == 9",
        "7 / 2 == 3 && -7 / 2 == -3 && -7 % 3 == -1",
        "0x1F == 31",
        "1u + 2u == 3u",
        "1.5 + 1.5 == 3.0",
        "1 < 2.5 && 2u < 3 && 3.0 >= 3",
        "'a' + \"b\" == 'ab'",
        r"'\n\t\x41\u00e9\101' == '\n\tA\u00e9A'",
        r"r'\d' == '\\d'",
        "'''a'b''' == \"a'b\"",
        "b'abc' == bytes('abc') && size(b'\\xff') == 1",
        "[1, 2] + [3] == [1, 2, 3]",
        "{'a': 1, 'b': 2} == {'b': 2, 'a': 1}",
        "{1: 'x'}[dyn(1u)] == 'x'",
        "-9223372036854775808 < 0",
        "!false && !!true",
        "true ? true : 1 / 0 == 1",
        "'b' in ['a', 'b'] && !('c' in {'a': 1})",
        "type(1) == int && type('x') == string && type([]) == list && type(null) == null_type",
        "type(timestamp(0)) == google.protobuf.Timestamp",
        "dyn(1) == dyn(1.0) && dyn(1) != dyn('1')",
        "// a comment\n true",
        "1 - 1 == 0 && 1 -1 == 0",
        "[1, 2,].size() == 2",
        "has({'a': 1}.a) && !has({'a': 1}.b)",
    ]);
}

#[test]
fn errors_are_absorbed_by_what_decides() {
    check("1 / 0 == 1 || true", "true");
    check("true || 1 / 0 == 1", "true");
    check("1 / 0 == 1 && false", "false");
    check("1 / 0 == 1 || false", "error: division by zero");
    check("[0, 1].exists(x, 1 / x == 1)", "true");
    check("[0, 1].all(x, 1 / x == 2)", "false");
    check("[0, 1].all(x, 1 / x == 1)", "error: division by zero");
}

#[test]
fn failures_have_cels_words() {
    check("1 % 0", "error: modulus by zero");
    check("9223372036854775807 + 1", "error: integer overflow");
    check("0u - 1u", "error: unsigned integer overflow");
    check("[1][1]", "error: index out of bounds: 1");
    check("{'a': 1}['b']", "error: no such key: b");
    check("{'a': 1}.b", "error: no such key: b");
    check("dyn('a') + dyn(1)", "error: no such overload");
    check("int('x')", "error: type conversion error from 'string' to 'int'");
    check("{'a': 1, 'a': 2}", "error: Failed with repeated key: a");
    check("optional.none().value()", "error: optional.none() dereference");
    check("lists.range(2000000)", "error: operation cancelled: actual cost limit exceeded");
}

#[test]
fn mistakes_are_found_when_compiling() {
    check(
        "1 + 'a'",
        "compile: compilation failed: ERROR: <input>:1:3: found no matching overload for '_+_' applied to '(int, string)'",
    );
    check(
        "1 == 'a'",
        "compile: compilation failed: ERROR: <input>:1:3: found no matching overload for '_==_' applied to '(int, string)'",
    );
    check(
        "nope",
        "compile: compilation failed: ERROR: <input>:1:1: undeclared reference to 'nope' (in container '')",
    );
    check(
        "nope(1)",
        "compile: compilation failed: ERROR: <input>:1:1: undeclared reference to 'nope' (in container '')",
    );
    check(
        "'a'.startsWith(1)",
        "compile: compilation failed: ERROR: <input>:1:4: found no matching overload for 'startsWith' applied to 'string.(int)'",
    );
    check(
        "[1, 'a']",
        "compile: compilation failed: ERROR: <input>:1:5: expected type 'int' but found 'string'",
    );
    check(
        "1 +",
        "compile: compilation failed: ERROR: <input>:1:4: Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}",
    );
    check(
        "1 2",
        "compile: compilation failed: ERROR: <input>:1:3: Syntax error: extraneous input '2' expecting <EOF>",
    );
    check("for", "compile: compilation failed: ERROR: <input>:1:1: reserved identifier: for");
    check("has(1)", "compile: compilation failed: ERROR: <input>:1:1: invalid argument to has() macro");
    check(
        "1.all(x, true)",
        "compile: compilation failed: ERROR: <input>:1:1: expression of type 'int' cannot be range of a comprehension (must be list, map, or dynamic)",
    );
    check(
        "[1].all(x, x)",
        "compile: compilation failed: ERROR: <input>:1:4: found no matching overload for '_&&_' applied to '(bool, int)'",
    );
    check(
        "true ? 1 : 'a'",
        "compile: compilation failed: ERROR: <input>:1:6: found no matching overload for '_?_:_' applied to '(bool, int, string)'",
    );
    check("'a'.matches('(')", "compile: compilation failed: ERROR: <input>:1:4: error parsing regexp: `(`");
    check(
        "Pod{}",
        "compile: compilation failed: ERROR: <input>:1:1: undeclared reference to 'Pod' (in container '')",
    );
    check(
        "'abc",
        "compile: compilation failed: ERROR: <input>:1:1: Syntax error: unterminated string literal",
    );
}

#[test]
fn macros() {
    all_true(&[
        "[1, 2, 3].all(x, x > 0) && ![1, 2].all(x, x > 1)",
        "[1, 2].exists(x, x == 2) && [1, 2, 2].exists_one(x, x == 1)",
        "[1, 2, 3].filter(x, x > 1) == [2, 3]",
        "[1, 2].map(x, x * 2) == [2, 4]",
        "[1, 2, 3].map(x, x > 1, x * 2) == [4, 6]",
        "{'a': 1, 'b': 2}.all(k, k in ['a', 'b'])",
        "{'a': 1}.map(k, k) == ['a']",
        "{'a': 1, 'b': 2}.filter(k, k == 'b') == ['b']",
        "[[1], [2]].all(l, l.all(x, x > 0))",
        "[5, 6].all(i, v, v == i + 5)",
        "{'a': 1}.exists(k, v, k == 'a' && v == 1)",
        "{'a': 1, 'b': 2}.existsOne(k, v, v == 2)",
        "[3, 4].transformList(i, v, i + v) == [3, 5]",
        "[3, 4].transformList(i, v, i > 0, i + v) == [5]",
        "{'a': 1, 'b': 2}.transformMap(k, v, v * 10) == {'a': 10, 'b': 20}",
        "{'a': 'x'}.transformMapEntry(k, v, {v: k}) == {'x': 'a'}",
        "[{'n': 2}, {'n': 1}].sortBy(e, e.n).map(e, e.n) == [1, 2]",
        "cel.bind(x, 2, x * x) == 4",
        "cel.bind(x, [1, 2], cel.bind(y, x.size(), x.all(z, z <= y)))",
    ]);
}

#[test]
fn optionals() {
    all_true(&[
        "optional.of(1).hasValue() && !optional.none().hasValue()",
        "optional.of(1).value() == 1",
        "optional.none().orValue(2) == 2 && optional.of(1).orValue(2) == 1",
        "optional.ofNonZeroValue(0).or(optional.of(3)).value() == 3",
        "{'a': {'b': 1}}.?a.?b.orValue(0) == 1",
        "{'a': {'b': 1}}.?x.?b.orValue(0) == 0",
        "{'a': {'b': 1}}.?a.b.orValue(0) == 1",
        "[1][?5].orValue(7) == 7",
        "optional.of(2).optMap(x, x * 2).value() == 4",
        "optional.of(2).optFlatMap(x, optional.of(x)).value() == 2",
        "[?optional.of(1), ?optional.none(), 2] == [1, 2]",
        "{?'a': optional.of(1), ?'b': optional.none()} == {'a': 1}",
        "[optional.of(1), optional.none()].unwrapOpt() == [1]",
    ]);
}
