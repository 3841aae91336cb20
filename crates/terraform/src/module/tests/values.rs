//! Expressions and functions.

use std::sync::Arc;

use serde_json::{Value as Json, json};

use crate::module::expression::{Budget, Names, Scope};
use crate::module::problem::{File, Problem};
use crate::module::term::Term;

struct Around;

impl Names for Around {
    fn variable(&self, name: &str) -> Result<Term, Problem> {
        match name {
            "list" => Ok(Term::from_json(&json!(["a", "b", "c"]))),
            "map" => Ok(Term::from_json(&json!({"x": 1, "y": 2}))),
            "password" => Ok(Term::text("hunter22").secret()),
            "users" => Ok(Term::from_json(&json!([{"name": "ann", "age": 30}, {"name": "bob", "age": 20}]))),
            "null" => Ok(Term::Null),
            _ => Err(Problem::new("no such variable")),
        }
    }

    fn local(&self, _: &str) -> Result<Term, Problem> {
        Err(Problem::Pending("it is not there yet".into()))
    }

    fn resource(&self, address: &str) -> Result<Term, Problem> {
        match address {
            "data.memo_count.all" => Ok(Term::from_json(&json!({"count": 2}))),
            _ => Ok(Term::from_json(&json!([{"id": "1"}, {"id": "2"}]))),
        }
    }

    fn call(&self, _: &str, only: Option<&str>) -> Result<Term, Problem> {
        assert_eq!(only, Some("id"), "only what is meant is asked for");
        Ok(Term::from_json(&json!([{"id": "x"}, {"id": "y"}])))
    }
}

pub(super) fn evaluate(text: &str) -> Result<Term, Problem> {
    let beside = [
        ("hello.txt", "hello\n"),
        ("list.tpl", "%{ for one in all ~}\n${one};\n%{ endfor ~}\n"),
        ("again.tpl", "${templatefile(\"hello.txt\", {})}"),
    ];
    let beside = beside.map(|(name, text)| (name.to_owned(), text.to_owned()));
    let file = File { name: "main.tf".into(), text: text.to_owned(), beside: Arc::new(beside.into()) };
    let expression = hcl_edit::parser::parse_expr(text)
        .map_err(|error| Problem::new(format!("this cannot be read: {}", error.message())))?;
    Scope::new(&file, &Around, &Budget::default()).evaluate(&expression)
}

#[test]
fn expressions() {
    fn check(text: &str, expected: Json) {
        let term = evaluate(text).unwrap_or_else(|problem| panic!("{text}: {problem}"));
        assert_eq!((term.to_json(), term.has_secret()), (expected, false), "{text}");
    }
    check("1 + 2 * 3", json!(7));
    check("(1 + 2) * 3 - -1", json!(10));
    check("7 / 2", json!(3.5));
    check("7 % 4", json!(3));
    check("1 < 2 && !(2 >= 3) || false", json!(true));
    check("9007199254740993 + 1", json!(9_007_199_254_740_994_i64));
    check("1 == 1.0", json!(true));
    check(r#"1 == "1""#, json!(false));
    check("null == var.null", json!(true));
    check(r#"true ? "yes" : "no""#, json!("yes"));
    check("[1, \"a\", true, null]", json!([1, "a", true, null]));
    check("{ a = 1, \"b\" = 2, (var.list[0]) = 3 }", json!({"a": 3, "b": 2}));
    check(r#""${var.list[1]}-${var.map.x}""#, json!("b-1"));
    check(r#""${var.map}""#, json!({"x": 1, "y": 2}));
    check(r#""$${var.map} %%{if}""#, json!("${var.map} %{if}"));
    check(r#""%{ if var.map.x == 1 }one%{ else }other%{ endif }""#, json!("one"));
    check(r#""%{ for one in var.list ~} ${one},  %{~ endfor }""#, json!("a,b,c,"));
    check("var.map[\"y\"]", json!(2));
    check("var.list[2]", json!("c"));
    check("var.list.0", json!("a"));
    check("var.users[*].name", json!(["ann", "bob"]));
    check("var.users.*.age", json!([30, 20]));
    check("var.null[*].name", json!([]));
    check("var.map[*].x", json!([1]));
    check("memo_note.a[*].id", json!(["1", "2"]));
    check("memo_note.a[1].id", json!("2"));
    check("data.memo_count.all.count", json!(2));
    check("module.net[1].id", json!("y"));
    check("module.net[*].id", json!(["x", "y"]));
    check("file(\"${path.module}/hello.txt\")", json!("hello\n"));
    check("fileexists(\"hello.txt\") && !fileexists(\"../hello.txt\")", json!(true));
    check("templatefile(\"list.tpl\", { all = var.list })", json!("a;\nb;\nc;\n"));
    check("templatestring(\"$${x}!\", { x = 1 })", json!("1!"));
    check("[for one in var.list : upper(one) if one != \"b\"]", json!(["A", "C"]));
    check("[for at, one in var.list : \"${at}${one}\"]", json!(["0a", "1b", "2c"]));
    check("{ for key, value in var.map : key => value * 10 }", json!({"x": 10, "y": 20}));
    check(
        "{ for user in var.users : user.age > 25 ? \"old\" : \"young\" => user.name... }",
        json!({"old": ["ann"], "young": ["bob"]}),
    );
    check("try(var.map.nothing, var.map.x)", json!(1));
    check("can(var.map.nothing)", json!(false));
    check("path.module", json!("."));
    check("nonsensitive(var.password)", json!("hunter22"));
    check("<<-EOT\n  one\n    two\n  EOT", json!("one\n  two\n"));
}

#[test]
fn functions() {
    fn check(text: &str, expected: Json) {
        let term = evaluate(text).unwrap_or_else(|problem| panic!("{text}: {problem}"));
        assert_eq!(term.to_json(), expected, "{text}");
    }
    check(
        r#"format("%s-%03d %.2f %q %5s|%-4s|%%", "a", 7, 1.5, "x", "r", "l")"#,
        json!("a-007 1.50 \"x\"     r|l   |%"),
    );
    check(r#"formatlist("%s-%s", ["a", "b"], "z")"#, json!(["a-z", "b-z"]));
    check(r#"join(",", concat(["a"], ["b", "c"]))"#, json!("a,b,c"));
    check(r#"split(",", "a,b")"#, json!(["a", "b"]));
    check(r#"replace("hello", "/l+/", "L")"#, json!("heLo"));
    check(r#"replace("a.b", ".", "-")"#, json!("a-b"));
    check(r#"regex("([a-z]+)([0-9]+)", "abc123")"#, json!(["abc", "123"]));
    check(r#"regexall("[0-9]", "a1b2")"#, json!(["1", "2"]));
    check(r#"substr("hello", -3, 2)"#, json!("ll"));
    check(r#"title("hello world")"#, json!("Hello World"));
    check(r#"trim("?!hi!?", "!?")"#, json!("hi"));
    check(r#"indent(2, "a\nb")"#, json!("a\n  b"));
    check("merge({a = 1}, null, {b = 2})", json!({"a": 1, "b": 2}));
    check("lookup({a = 1}, \"b\", 3)", json!(3));
    check("flatten([[1], [2, [3]]])", json!([1, 2, 3]));
    check("distinct([1, 2, 1])", json!([1, 2]));
    check("toset([\"b\", \"a\", \"b\"])", json!(["a", "b"]));
    check("setsubtract([1, 2], [2])", json!([1]));
    check("setproduct([\"a\", \"b\"], [1])", json!([["a", 1], ["b", 1]]));
    check("zipmap([\"a\"], [1])", json!({"a": 1}));
    check("element([1, 2], 3)", json!(2));
    check("slice([1, 2, 3], 1, 3)", json!([2, 3]));
    check("range(3)", json!([0, 1, 2]));
    check("range(3, 0, -2)", json!([3, 1]));
    check("max(3, [1, 5]...)", json!(5));
    check("coalesce(null, \"\", \"x\")", json!("x"));
    check("one([])", json!(null));
    check("sum([0.1, 0.2])", json!(0.3));
    check("ceil(1.2) + floor(1.8) + abs(-1)", json!(4));
    check("parseint(\"ff\", 16)", json!(255));
    check("jsonencode({b = [1], a = null})", json!("{\"a\":null,\"b\":[1]}"));
    check("jsondecode(\"[1]\")[0]", json!(1));
    check("base64decode(base64encode(\"hé\"))", json!("hé"));
    check("urlencode(\"a b/ü\")", json!("a+b%2F%C3%BC"));
    check("cidrsubnet(\"10.0.0.0/16\", 8, 3)", json!("10.0.3.0/24"));
    check("cidrhost(\"10.0.3.0/24\", -2)", json!("10.0.3.254"));
    check("cidrnetmask(\"10.0.0.0/20\")", json!("255.255.240.0"));
    check("cidrsubnet(\"fd00::/48\", 16, 255)", json!("fd00:0:0:ff::/64"));
    check("tonumber(\"1.5\") + 1", json!(2.5));
    check("tolist(toset([2, 1]))", json!([1, 2]));
    check("length(\"hé\") + length({a = 1})", json!(3));
    let yaml = "\"a\":\n- 1\n- \"b\": null\n  \"c\": []\n\"d\":\n  \"e\": \"x\"\n";
    check("yamlencode({ a = [1, { b = null, c = [] }], d = { e = \"x\" } })", json!(yaml));
    check("yamldecode(yamlencode({ a = [1, { b = [[2]] }] }))", json!({"a": [1, {"b": [[2]]}]}));
    check("yamldecode(\"a: [1, x]\").a[1]", json!("x"));
    check(
        "csvdecode(\"a,b\\n1,\\\"x,\\\"\\\"y\\\"\\n\\n2,\")",
        json!([{"a": "1", "b": "x,\"y"}, {"a": "2", "b": ""}]),
    );
    check("base64gunzip(base64gzip(\"hé\"))", json!("hé"));
    check("textencodebase64(\"hi\", \"UTF-16LE\")", json!("aABpAA=="));
    check("textdecodebase64(\"aABpAA==\", \"UTF-16LE\")", json!("hi"));
    check("md5(\"a\")", json!("0cc175b9c0f1b6a831c399e269772661"));
    check("sha1(\"a\")", json!("86f7e437faa5a7fce15d1ddcb9eaeaea377667b8"));
    check("substr(sha512(\"a\"), 0, 8)", json!("1f40fc92"));
    check("uuidv5(\"dns\", \"www.terraform.io\")", json!("a5008fae-b28c-5ba5-96cd-82b4c53552d6"));
    check(
        "cidrsubnets(\"10.1.0.0/16\", 4, 4, 8, 4)",
        json!(["10.1.0.0/20", "10.1.16.0/20", "10.1.32.0/24", "10.1.48.0/20"]),
    );
    check("timeadd(\"2017-11-22T00:00:00Z\", \"1h30m\")", json!("2017-11-22T01:30:00Z"));
    check("timecmp(\"2017-11-22T00:00:00Z\", \"2017-11-22T01:00:00+01:00\")", json!(0));
    check("formatdate(\"DD MMM YYYY hh:mm ZZZ\", \"2018-01-02T23:12:01Z\")", json!("02 Jan 2018 23:12 UTC"));
    check(
        "formatdate(\"EEEE, DD-MMM-YY hh:mm:ss ZZZ\", \"2018-01-02T23:12:01Z\")",
        json!("Tuesday, 02-Jan-18 23:12:01 UTC"),
    );
    check("formatdate(\"h'h'mm AA Z\", \"2018-01-02T23:12:01-08:00\")", json!("23h12 PM -08:00"));
    check("basename(\"a/b.txt\") == \"b.txt\" && dirname(\"a/b.txt\") == \"a\"", json!(true));
    check("issensitive(var.password) && !issensitive(1)", json!(true));
}

#[test]
fn what_has_no_value() {
    fn check(text: &str, expected: &str) {
        let problem = evaluate(text).expect_err(text).to_string();
        assert_eq!(problem, expected, "{text}");
        assert!(!problem.contains("hunter22"));
    }
    check("1 + \"x\"", "main.tf:1: a number is required, and this is a string");
    check("var.map.z", "main.tf:1: there is no attribute \"z\"");
    check("var.list[3]", "main.tf:1: the list has no such element");
    check("[\n1,\nvar.list.x]", "main.tf:3: a list has no attribute \"x\"");
    check("1 / 0", "main.tf:1: this has no result that is a number");
    check("tonumber(var.password)", "main.tf:1: tonumber: a number is required, and this is a string");
    check("toset([1])[0]", "main.tf:1: a set has no element to choose");
    check("each.key", "main.tf:1: each is only there where it is repeated");
    check(
        "{ for one in [1, 1] : \"k\" => one }",
        "main.tf:1: two elements have the same key; ... would group them",
    );
    check("try(local.later, 1)", "it is not there yet");
    check("true ? 1 : local.later", "it is not there yet");
    check("file(\"../x\")", "main.tf:1: file: the module has no file \"../x\"");
    check(
        "templatefile(\"again.tpl\", {})",
        "again.tpl:1: templatefile: a template holds no other templates",
    );
    check("templatefile(\"list.tpl\", {})", "list.tpl:1: there is nothing called \"all\"");
    check("format(\"%d\", 1.5)", "main.tf:1: format: a whole number is required");
    let greedy = "[for a in range(1000) : [for b in range(1000) : [for c in range(1000) : 1]]]";
    check(greedy, "main.tf:1: the module's expressions make too much of too little");
    let long = "[for a in range(1000) : tonumber(\"1e-9000\") / 3]";
    check(long, "main.tf:1: the module's expressions make too much of too little");
    check("format(\"%999999999s\", 1)", "main.tf:1: format: the pattern asks for too wide a column");
}

#[test]
fn what_is_secret_stays_so() {
    for text in [
        "var.password",
        "\"x${var.password}\"",
        "upper(var.password)",
        "var.password == \"x\"",
        "[var.password]",
        "{ a = var.password }.a",
        "true ? var.password : 1",
        "[for one in [var.password] : one]",
        "toset([var.password])",
        "sensitive(1)",
        "flatten([[var.password]])[0]",
        "concat([1], [var.password])[1]",
        "jsonencode([var.password])",
    ] {
        assert!(evaluate(text).unwrap().has_secret(), "{text}");
    }
    for text in ["length([var.password])", "concat([1], [var.password])[0]", "{ a = 1, b = var.password }.a"]
    {
        assert!(!evaluate(text).unwrap().has_secret(), "{text}");
    }
}
