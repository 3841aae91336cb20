//! The functions, by library.

use super::{all_true, check};

#[test]
fn strings() {
    all_true(&[
        "'hello'.charAt(4) == 'o' && 'hello'.charAt(5) == ''",
        "'h\u{e9}llo'.indexOf('l') == 2 && 'hello mellow'.indexOf('ello', 2) == 7",
        "'hello mellow'.lastIndexOf('ello') == 7 && 'hello mellow'.lastIndexOf('ello', 6) == 1",
        "'hello'.indexOf('x') == -1 && 'hello'.lastIndexOf('') == 5",
        "'TacoCat'.lowerAscii() == 'tacocat' && 'tacoCat'.upperAscii() == 'TACOCAT'",
        "'  trim  '.trim() == 'trim'",
        "'hello hello'.replace('he', 'we') == 'wello wello' && 'hello hello'.replace('he', 'we', 1) == 'wello hello'",
        "'a,b,c'.split(',') == ['a', 'b', 'c'] && 'a,b,c'.split(',', 2) == ['a', 'b,c']",
        "'a,b'.split(',', 0) == [] && 'abc'.split('') == ['a', 'b', 'c']",
        "'tacocat'.substring(4) == 'cat' && 'tacocat'.substring(0, 4) == 'taco'",
        "['a', 'b'].join() == 'ab' && ['a', 'b'].join('-') == 'a-b'",
        "'abc'.contains('b') && 'abc'.startsWith('a') && 'abc'.endsWith('c')",
        "size('h\u{e9}') == 2 && 'abc'.size() == 3",
        r#"strings.quote('a"b') == '"a\\"b"'"#,
    ]);
    check("'tacocat'.substring(40)", "error: index out of range: 40");
    check("'tacocat'.substring(3, 1)", "error: invalid substring range. start: 3, end: 1");
}

#[test]
fn format() {
    all_true(&[
        "'%s is %d'.format(['x', 3]) == 'x is 3'",
        "'%s'.format([[1, 2]]) == '[1, 2]' && '%s'.format([{'b': 1, 'a': dyn(true)}]) == '{a: true, b: 1}'",
        "'%.2f'.format([1.239]) == '1.24' && '%f'.format([2.5]) == '2.500000'",
        "'%.3e'.format([1052.0]) == '1.052e+03'",
        "'%b %o %x %X'.format([5, 8, 255, 255]) == '101 10 ff FF'",
        "'%x'.format(['hi']) == '6869'",
        "'100%%'.format([]) == '100%'",
        "'%s %s'.format([null, duration('90s')]) == 'null 90s'",
    ]);
    check("'%d'.format(['x'])", "error: error during formatting: decimal clause does not support string");
    check("'%s %s'.format(['x'])", "error: index 1 out of range");
}

#[test]
fn lists_and_sets() {
    all_true(&[
        "[1, 2, 2].isSorted() && !['b', 'a'].isSorted()",
        "[1, 2].sum() == 3 && [1.5, 2.5].sum() == 4.0 && [duration('1s'), duration('1m')].sum() == duration('61s')",
        "[3, 1].min() == 1 && ['a', 'b'].max() == 'b'",
        "[1, 2, 1].indexOf(1) == 0 && [1, 2, 1].lastIndexOf(1) == 2 && [1].indexOf(5) == -1",
        "[1, 2, 3, 4].slice(1, 3) == [2, 3] && [1, 2].reverse() == [2, 1]",
        "[1, 1, 2].distinct() == [1, 2] && [3, 1, 2].sort() == [1, 2, 3]",
        "[[1], [2, 3]].flatten() == [1, 2, 3] && lists.range(3) == [0, 1, 2]",
        "[1, 2].first().value() == 1 && [1, 2].last().value() == 2 && !dyn([]).first().hasValue()",
        "sets.contains([1, 2, 3], [3, 1]) && sets.equivalent([1, 1, 2], [2, 1]) && sets.intersects([1], [1, 2])",
        "!sets.intersects([1], [2]) && sets.contains([], [])",
    ]);
    check("[].max()", "error: max called on empty list");
}

#[test]
fn regular_expressions() {
    all_true(&[
        "'abc 123'.matches('[0-9]+') && !'abc'.matches('^[0-9]+$') && matches('abc', 'b')",
        "'abc 123'.find('[0-9]+') == '123' && 'abc'.find('[0-9]+') == ''",
        "'123 abc 456'.findAll('[0-9]+') == ['123', '456'] && '123 abc 456'.findAll('[0-9]+', 1) == ['123']",
        "'ab'.matches('a' + 'b')",
    ]);
    check("'a'.matches('(' + '')", "error: error parsing regexp: `(`");
}

#[test]
fn urls() {
    all_true(&[
        "isURL('https://example.com:80/') && !isURL('../a') && isURL('/path')",
        "url('https://example.com:80/').getHost() == 'example.com:80'",
        "url('https://[::1]:80/').getHostname() == '::1' && url('https://[::1]:80/').getPort() == '80'",
        "url('https://example.com/path with spaces/').getEscapedPath() == '/path%20with%20spaces/'",
        "url('https://example.com/?k1=a&k2=b&k2=c').getQuery() == {'k1': ['a'], 'k2': ['b', 'c']}",
        "url('HTTPS://example.com').getScheme() == 'https'",
        "url('/path').getScheme() == ''",
    ]);
}

#[test]
fn quantities() {
    all_true(&[
        "quantity('1Gi') == quantity('1024Mi') && quantity('1k').isGreaterThan(quantity('999'))",
        "quantity('50k').add(quantity('20k')).compareTo(quantity('70k')) == 0",
        "quantity('50k').sub(20).compareTo(quantity('49980')) == 0",
        "quantity('50k').asInteger() == 50000 && quantity('50.5k').isInteger() && !quantity('0.5').isInteger()",
        "quantity('200M').compareTo(quantity('0.2G')) == 0 && quantity('1e3') == quantity('1k')",
        "isQuantity('100m') && !isQuantity('10 Mo') && !isQuantity('') && quantity('-5').sign() == -1",
        "quantity('1.5').asApproximateFloat() == 1.5 && quantity('100m').isLessThan(quantity('1'))",
    ]);
    check("quantity('0.5').asInteger()", "error: cannot convert value to integer");
}

#[test]
fn networks() {
    all_true(&[
        "isIP('192.168.0.1') && !isIP('192.168.0.256') && !isIP('::ffff:1.2.3.4') && !isIP('01.2.3.4')",
        "ip('127.0.0.1').isLoopback() && ip('::1').family() == 6 && ip('10.0.0.1').isGlobalUnicast()",
        "ip.isCanonical('127.0.0.1') && !ip.isCanonical('2001:db8:0:0::1')",
        "ip('169.254.1.1').isLinkLocalUnicast() && ip('224.0.0.1').isLinkLocalMulticast() && ip('0.0.0.0').isUnspecified()",
        "string(ip('10.0.0.1')) == '10.0.0.1' && ip('10.0.0.1') == ip('10.0.0.1')",
        "cidr('192.168.0.0/24').containsIP('192.168.0.1') && !cidr('192.168.0.0/24').containsIP(ip('192.168.1.1'))",
        "cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16') && !cidr('10.1.0.0/16').containsCIDR(cidr('10.0.0.0/8'))",
        "cidr('10.0.0.1/8').masked() == cidr('10.0.0.0/8') && cidr('::1/128').prefixLength() == 128",
        "cidr('192.168.1.0/24').ip() == ip('192.168.1.0') && string(cidr('10.0.0.0/8')) == '10.0.0.0/8'",
        "isCIDR('10.0.0.0/0') && !isCIDR('10.0.0.0/33') && !isCIDR('10.0.0.0')",
    ]);
}

#[test]
fn semantic_versions() {
    all_true(&[
        "semver('1.2.3').major() == 1 && semver('1.2.3').minor() == 2 && semver('1.2.3').patch() == 3",
        "semver('1.2.3').isLessThan(semver('1.10.0')) && semver('1.0.0').isGreaterThan(semver('1.0.0-rc.1'))",
        "semver('1.0.0-alpha.2').compareTo(semver('1.0.0-alpha.10')) == -1 && semver('1.0.0+a') == semver('1.0.0+b')",
        "isSemver('1.2.3') && !isSemver('v1.2.3') && isSemver('v1.2', true) && !isSemver('1.02.3')",
        "semver('v01.01', true).compareTo(semver('1.1.0')) == 0",
    ]);
}

#[test]
fn encoders_math_and_conversions() {
    all_true(&[
        "base64.encode(b'hello') == 'aGVsbG8=' && base64.decode('aGVsbG8=') == b'hello' && base64.decode('aGVsbG8') == b'hello'",
        "math.greatest(1, 3, 2) == 3 && math.least([3, 1]) == 1 && math.greatest(1.5, 1) == 1.5",
        "math.ceil(1.2) == 2.0 && math.floor(-1.2) == -2.0 && math.round(1.5) == 2.0 && math.trunc(-1.9) == -1.0",
        "math.abs(-1) == 1 && math.sign(-2.5) == -1.0 && math.isNaN(0.0 / 0.0) && math.isInf(1.0 / 0.0)",
        "math.bitAnd(6, 3) == 2 && math.bitOr(4u, 1u) == 5u && math.bitXor(6, 3) == 5 && math.bitNot(0) == -1",
        "math.bitShiftLeft(1, 3) == 8 && math.bitShiftRight(8u, 2) == 2u && math.sqrt(9) == 3.0",
        "int('42') == 42 && int(3.9) == 3 && uint(7) == 7u && double('1.5') == 1.5 && string(1.5) == '1.5'",
        "string(true) == 'true' && bool('true') && string(b'abc') == 'abc' && int(timestamp('1970-01-01T00:01:00Z')) == 60",
    ]);
    check("int(1e19)", "error: integer overflow");
    check("uint(-1)", "error: unsigned integer overflow");
}

#[test]
fn time() {
    all_true(&[
        "timestamp('2023-01-01T00:00:00Z') + duration('24h') == timestamp('2023-01-02T00:00:00Z')",
        "timestamp('2023-01-02T00:00:00Z') - timestamp('2023-01-01T00:00:00Z') == duration('24h')",
        "duration('1h30m').getMinutes() == 90 && duration('1.5s').getMilliseconds() == 500",
        "timestamp('2023-05-06T07:08:09.123Z').getFullYear() == 2023 && timestamp('2023-05-06T07:08:09Z').getMonth() == 4",
        "timestamp('2023-05-06T07:08:09Z').getDate() == 6 && timestamp('2023-05-06T07:08:09Z').getDayOfWeek() == 6",
        "timestamp('2023-05-06T07:08:09Z').getHours('Europe/Berlin') == 9",
        "timestamp('2023-05-06T07:08:09Z').getHours('-02:30') == 4",
        "string(duration('1h')) == '3600s' && string(timestamp('2023-05-06T07:08:09Z')) == '2023-05-06T07:08:09Z'",
        "duration('1m') > duration('59s') && duration('-1.5h') < duration('0s')",
    ]);
    check("duration('x')", "error: type conversion error from 'string' to 'duration'");
    check("timestamp('2023-05-06')", "error: type conversion error from 'string' to 'timestamp'");
}

#[test]
fn named_formats() {
    all_true(&[
        "!format.dns1123Label().validate('my-label').hasValue()",
        "format.dns1123Label().validate('My_Label').value().size() == 1",
        "format.named('dns1035Label').value().validate('1abc').hasValue()",
        "!format.named('nope').hasValue()",
        "!format.dns1123LabelPrefix().validate('name-').hasValue()",
        "!format.uuid().validate('123e4567-e89b-12d3-a456-426614174000').hasValue()",
        "format.date().validate('2021-02-30').hasValue() && !format.datetime().validate('2021-01-01T00:00:00Z').hasValue()",
        "!format.uri().validate('http://example.com').hasValue() && !format.byte().validate('aGVsbG8=').hasValue()",
    ]);
}
