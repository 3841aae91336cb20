//! Modules without any control plane: declarations, and what is to be done; [`values`] are expressions, [`table`] those that
//! Terraform was asked about, [`calls`] what modules have to do with others and with providers, [`ephemeral`] what is open only for a while.

mod calls;
mod ephemeral;
mod table;
mod values;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value as Json, json};

use super::config::{Module, Sort};
use super::course::{self, Answer, Course, Returned, Schemas, Situation, There, Wanted};
use super::expression::Budget;
use super::graph::Graph;
use super::inputs::inputs;
use super::problem::{File, Problem};
use super::term::Term;
use super::tree::Tree;
use crate::plugin::{Function, Parameter};
use crate::schema::{Block, Member, Nested, Nesting, Schema, Shape};
use crate::value::Type;

// Declarations.

/// Modules by their directories; the empty one is the outermost.
pub(super) type Files<'a> = &'a [(&'a str, &'a str)];

pub(super) fn tree(files: Files<'_>, directory: &str) -> Result<Tree, Problem> {
    let text = files.iter().find(|(place, _)| *place == directory).map_or("", |(_, text)| text);
    let name = if directory.is_empty() { "main.tf".to_owned() } else { format!("{directory}/main.tf") };
    let module = Module::parse(&[Arc::new(File { name, text: text.to_owned(), ..File::default() })])?;
    let mut calls = BTreeMap::new();
    for (name, call) in &module.calls {
        calls.insert(name.clone(), tree(files, call.source.trim_start_matches("./"))?);
    }
    Ok(Tree { module, calls })
}

fn checked(files: Files<'_>) -> Result<(Tree, Graph), Problem> {
    let tree = tree(files, "")?;
    let graph = Graph::of(&tree)?;
    Ok((tree, graph))
}

fn module(text: &str) -> Result<(Tree, Graph), Problem> {
    checked(&[("", text)])
}

#[test]
fn what_is_not_supported_is_refused_with_its_place() {
    fn check(text: &str, expected: &str) {
        let refused = module(text).map(drop).expect_err(text);
        assert_eq!(refused.to_string(), expected, "{text}");
    }
    check(
        "resource \"a\" \"b\" {\n",
        "main.tf:1: this cannot be read: invalid block body; expected `}`, newline or identifier",
    );
    check(
        "terraform {\n  backend \"s3\" {}\n}",
        "main.tf:2: backends are not supported; the state of each resource is kept beside its object",
    );
    check(
        "resource \"a_b\" \"c\" {\n  provisioner \"local-exec\" {}\n}",
        "main.tf:2: provisioners are not supported",
    );
    check(
        "resource \"a_b\" \"c\" {\n  provider = aws[0]\n}",
        "main.tf:2: provider is a name, such as aws or aws.west",
    );
    check(
        "resource \"a_b\" \"c\" {\n  lifecycle {\n    replace_triggered_by = [x]\n  }\n}",
        "main.tf:3: replace_triggered_by is not supported",
    );
    check(
        "resource \"a_b\" \"c\" {\n  lifecycle {\n    ignore_changes = [1]\n  }\n}",
        "main.tf:3: ignore_changes is a list of attributes, or the word all",
    );
    check("removed {\n}", "main.tf:1: removed blocks are not supported");
    for moved in ["", "from = a_b.c", "from = a_b.c\n to = a_b", "from = a_b.c\n to = a_b.d.e"] {
        let expected = "main.tf:1: moved has from and to, which are addresses";
        check(&format!("moved {{\n {moved}\n}}"), expected);
    }
    check(
        "moved {\n from = a_b.c\n to = module.d\n}",
        "main.tf:1: a resource does not become a module, nor a module a resource",
    );
    check(
        "resource \"a_b\" \"c\" {\n}\nmoved {\n from = a_b.c\n to = a_b.d\n}",
        "main.tf:3: a_b.c has moved, and is declared still",
    );
    check(
        "locals {\n  a = uuid()\n}",
        "main.tf:2: the function \"uuid\" gives something else each time, and the module would never be settled",
    );
    check("locals {\n  a = nonsense()\n}", "main.tf:2: the function \"nonsense\" is not supported");
    check("output \"a\" {\n  value = var.b\n}", "main.tf:2: there is no variable \"b\"");
    check("output \"a\" {\n  value = a_b.c.id\n}", "main.tf:2: there is no resource a_b.c");
    check("output \"a\" {\n  value = data.a_b.c.id\n}", "main.tf:2: there is no resource data.a_b.c");
    check("output \"a\" {\n  value = module.b.id\n}", "main.tf:2: there is no module \"b\"");
    check("output \"a\" {\n  value = self.id\n}", "main.tf:2: self is only there in a postcondition");
    check("locals {\n  a = each.key\n}", "main.tf:2: each is only there in a resource that has its argument");
    check(
        "locals {\n  a = local.b\n  b = local.a\n}",
        "these depend on each other in a circle: local.a, local.b",
    );
    check("variable \"a\" {\n  type = text\n}", "main.tf:2: this is not a type");
    check("variable \"a\" {}\nvariable \"a\" {}", "main.tf:2: this variable is declared twice");
    check("variable \"a\" {\n  default = var.b\n}", "main.tf:2: a constant is required here");
}

#[test]
fn variables() {
    let (tree, _) = module(
        r#"
        variable "plain" {}
        variable "node_count" {
          type    = number
          default = 2
          validation {
            condition     = var.node_count < 10
            error_message = "there are at most 9"
          }
        }
        variable "settings" {
          type = object({ name = string, size = optional(number, 3), tags = optional(map(string)) })
          default = { name = "x" }
        }
        variable "zones" {
          type    = set(string)
          default = []
        }
        variable "password" {
          sensitive = true
          default   = "none"
        }
        "#,
    )
    .unwrap();
    let given = |shown: Json, secret: Option<Json>| {
        inputs(&tree.module, &shown, secret.as_ref(), &Budget::default())
            .map_err(|problem| problem.to_string())
    };
    let good = given(json!({"plain": 1, "nodeCount": "3", "zones": ["b", "a", "b"]}), None).unwrap();
    assert_eq!(good["node_count"].to_json(), json!(3));
    assert_eq!(good["zones"].to_json(), json!(["a", "b"]));
    assert_eq!(good["settings"].to_json(), json!({"name": "x", "size": 3, "tags": null}));
    assert!(good["password"].has_secret() && !good["plain"].has_secret());
    let good = given(json!({}), Some(json!({"plain": "p", "password": "q"}))).unwrap();
    assert!(good["plain"].has_secret() && good["password"].to_json() == "q");
    let bad = |shown: Json, expected: &str| assert_eq!(given(shown, None).unwrap_err(), expected);
    bad(json!({}), "the variable \"plain\" (main.tf:2) is required");
    bad(json!({"plain": 1, "other": 1}), "spec.resource.input: the module has no variable for \"other\"");
    bad(json!({"plain": 1, "nodeCount": 12}), "main.tf:7: there are at most 9");
    bad(
        json!({"plain": 1, "nodeCount": "many"}),
        "the variable \"node_count\" (main.tf:3): a number is required, and this is a string",
    );
    bad(
        json!({"plain": 1, "settings": {"name": "x", "size": []}}),
        "the variable \"settings\" (main.tf:11): size: a number is required, and this is a list",
    );
    bad(
        json!({"plain": 1, "password": "q"}),
        "spec.resource.input: \"password\" is sensitive; give it in the Secret of spec.secretRef",
    );
}

// What is to be done.

fn member(shape: Shape) -> Member {
    Member {
        shape,
        required: false,
        optional: true,
        computed: false,
        sensitive: false,
        write_only: false,
        deprecated: false,
        description: String::new(),
    }
}

fn thing() -> Arc<Schema> {
    let text = || Shape::Plain(Type::String);
    let page = Block { members: BTreeMap::from([("text".to_owned(), member(text()))]), ..Block::default() };
    let nested = Nested { nesting: Nesting::List, block: page, is_block: true, min_items: 0, max_items: 0 };
    let members = BTreeMap::from([
        ("id".to_owned(), Member { optional: false, computed: true, ..member(text()) }),
        ("name".to_owned(), Member { required: true, optional: false, ..member(text()) }),
        ("tags".to_owned(), member(Shape::Plain(Type::Map(Box::new(Type::String))))),
        ("secret_word".to_owned(), Member { sensitive: true, ..member(text()) }),
        ("word_wo".to_owned(), Member { write_only: true, ..member(text()) }),
        ("page".to_owned(), member(Shape::Nested(Box::new(nested)))),
    ]);
    Arc::new(Schema::new(0, Block { members, ..Block::default() }))
}

/// Everything looks the same.
struct Same;

impl Schemas for Same {
    fn resource(&self, _: Sort, _: &str, _: &str) -> Result<Arc<Schema>, Problem> {
        Ok(thing())
    }

    fn provider(&self, _: &str) -> Result<Arc<Schema>, Problem> {
        Ok(thing())
    }

    /// `f(text, numbers...)`.
    fn function(&self, _: &str, _: &str) -> Result<Arc<Function>, Problem> {
        let parameter = |name: &str, ty: Type| Parameter { name: name.into(), ty, takes_null: false };
        Ok(Arc::new(Function {
            parameters: vec![parameter("text", Type::String)],
            variadic: Some(parameter("numbers", Type::Number)),
            returns: Type::String,
        }))
    }
}

/// Decides about a module when these are there, all of them as wanted.
fn decide(text: &str, there: &BTreeMap<String, There>) -> Result<Course, Problem> {
    decide_with(&[("", text)], there, &BTreeMap::new())
}

fn decide_with(
    files: Files<'_>,
    there: &BTreeMap<String, There>,
    answers: &BTreeMap<String, Answer>,
) -> Result<Course, Problem> {
    decide_knowing(files, there, answers, &Returned::new())
}

fn decide_knowing(
    files: Files<'_>,
    there: &BTreeMap<String, There>,
    answers: &BTreeMap<String, Answer>,
    returned: &Returned,
) -> Result<Course, Problem> {
    decide_when(files, there, answers, returned, false)
}

fn decide_when(
    files: Files<'_>,
    there: &BTreeMap<String, There>,
    answers: &BTreeMap<String, Answer>,
    returned: &Returned,
    open: bool,
) -> Result<Course, Problem> {
    let (tree, graph) = checked(files)?;
    let budget = Budget::default();
    let given = inputs(&tree.module, &json!({}), None, &budget)?;
    course::course(&Situation {
        tree: &tree,
        graph: &graph,
        inputs: &given,
        schemas: &Same,
        there,
        answers,
        returned,
        fits: &|_| true,
        open,
        budget: &budget,
    })
}

fn settled(behind: &[&str], address: &str) -> (String, There) {
    let resource = super::address::declaration(address);
    let state = Term::from_json(&json!({"id": format!("id of {address}"), "name": address}));
    let there = There {
        resource,
        behind: behind.iter().map(|one| (*one).to_owned()).collect(),
        state: Some(state),
        ..There::default()
    };
    (address.to_owned(), there)
}

fn addresses(course: &Course) -> Vec<&str> {
    course.wanted.iter().map(|wanted| wanted.address.as_str()).collect()
}

fn find<'a>(course: &'a Course, address: &str) -> &'a Wanted {
    course.wanted.iter().find(|wanted| wanted.address == address).unwrap()
}

const NETWORK: &str = r#"
    locals {
      names  = toset(["x", "y"])
      joined = join(",", a_net.main[*].id)
    }
    resource "a_net" "main" {
      count = 2
      name  = "net-${count.index}"
      tags  = { kind = null, at = count.index }
    }
    resource "a_host" "each" {
      for_each = local.names
      name     = "${each.key} in ${local.joined}"
      dynamic "page" {
        for_each = [1, 2]
        content {
          text = "page ${page.value}"
        }
      }
    }
    resource "a_host" "alone" {
      name       = "alone"
      depends_on = [a_host.each]
    }
    output "host_ids" {
      value = { for key, host in a_host.each : key => host.id }
    }
"#;

#[test]
fn one_after_the_other() {
    let mut there = BTreeMap::new();
    let course = decide(NETWORK, &there).unwrap();
    assert_eq!(addresses(&course), ["a_net.main[0]", "a_net.main[1]"]);
    assert_eq!(course.wanted[1].shown, json!({"name": "net-1", "tags": {"at": "1"}}));
    let says = |course: &Course, text: &str| course.waiting.iter().any(|waiting| waiting == text);
    assert!(
        says(&course, "a_host.each[\"x\"] waits: a_net.main[0] is not there yet"),
        "{:?}",
        course.waiting
    );
    assert!(course.outputs.is_empty() && course.going.is_empty());

    there.extend([settled(&[], "a_net.main[0]"), settled(&[], "a_net.main[1]")]);
    let course = decide(NETWORK, &there).unwrap();
    assert_eq!(addresses(&course).len(), 4, "those that are known to be right are written as well");
    let host = find(&course, "a_host.each[\"y\"]");
    assert_eq!(host.shown["name"], "y in id of a_net.main[0],id of a_net.main[1]");
    assert_eq!(host.shown["page"], json!([{"text": "page 1"}, {"text": "page 2"}]));
    assert_eq!(host.behind, ["a_net.main".to_owned()].into());

    there.extend(["a_host.each[\"x\"]", "a_host.each[\"y\"]"].map(|one| settled(&["a_net.main"], one)));
    let course = decide(NETWORK, &there).unwrap();
    assert_eq!(find(&course, "a_host.alone").behind.len(), 2);
    there.extend([settled(&["a_net.main", "a_host.each"], "a_host.alone")]);
    let course = decide(NETWORK, &there).unwrap();
    assert!(course.waiting.is_empty(), "{:?}", course.waiting);
    let ids = json!({"x": "id of a_host.each[\"x\"]", "y": "id of a_host.each[\"y\"]"});
    assert_eq!(course.outputs["hostIDS"], ids);
}

#[test]
fn what_is_no_longer_wanted_goes_when_nothing_stands_on_it() {
    let mut there = BTreeMap::from([
        settled(&[], "a_net.main[0]"),
        settled(&[], "a_net.main[1]"),
        settled(&[], "a_net.main[2]"),
        settled(&[], "a_net.old"),
        settled(&["a_net.old"], "a_host.old"),
        settled(&["a_net.main"], "a_host.each[\"x\"]"),
        settled(&["a_net.main"], "a_host.each[\"y\"]"),
        settled(&["a_net.main", "a_host.each"], "a_host.alone"),
    ]);
    let course = decide(NETWORK, &there).unwrap();
    let going: Vec<&String> = course.going.iter().collect();
    assert_eq!(going, ["a_host.old", "a_net.main[2]"]);
    assert!(course.outputs.is_empty() && course.waiting.len() == 3, "{:?}", course.waiting);
    // While it goes, what it stands on waits; so does what something stood on that is being changed.
    there.get_mut("a_host.old").unwrap().going = true;
    there.get_mut("a_host.each[\"x\"]").unwrap().state = None;
    assert!(decide(NETWORK, &there).unwrap().going.is_empty());
    there.remove("a_host.old");
    assert_eq!(decide(NETWORK, &there).unwrap().going, ["a_net.old".to_owned()].into());
    // Which hosts there should be is not known while nets are on their way: none goes.
    let unknown = NETWORK.replace("local.names", "toset([local.joined])");
    there.get_mut("a_net.main[0]").unwrap().state = None;
    let course = decide(&unknown, &there).unwrap();
    assert_eq!(course.going, ["a_net.old".to_owned()].into());
    // All of it, from the top.
    assert_eq!(course::departure(&there), ["a_host.alone".to_owned(), "a_net.old".to_owned()].into());
}

#[test]
fn secrets_go_where_they_are_kept() {
    let head = "variable \"word\" {\n sensitive = true\n default = \"hunter22\"\n}\n";
    let with = |text: &str| decide(&format!("{head}{text}"), &BTreeMap::new());
    let course = with("resource \"a_b\" \"c\" {\n name = \"x\"\n secret_word = var.word\n}").unwrap();
    assert_eq!(course.wanted[0].shown, json!({"name": "x"}));
    assert_eq!(course.wanted[0].secret, Some(json!({"secret_word": "hunter22"})));
    let refused = |text: &str, expected: &str| {
        let problem = with(text).expect_err(text).to_string();
        assert_eq!(problem, expected);
    };
    let exposed = "a sensitive value is given to an argument that the provider does not keep secret";
    refused("resource \"a_b\" \"c\" {\n name = var.word\n}", &format!("main.tf:6: {exposed}"));
    refused(
        "resource \"a_b\" \"c\" {\n count = length(var.word)\n name = \"x\"\n}",
        "main.tf:6: this must not be a sensitive value",
    );
    refused(
        "output \"c\" {\n value = var.word\n}",
        "main.tf:6: the output \"c\" holds something sensitive and does not say so",
    );
    let course = with("output \"c\" {\n sensitive = true\n value = var.word\n}").unwrap();
    assert!(course.outputs.is_empty() && course.secret_outputs["c"] == "hunter22");
}

#[test]
fn wrong_arguments_are_found_before_anything_is_done() {
    let refused = |text: &str, expected: &str| {
        let problem = decide(text, &BTreeMap::new()).expect_err(text).to_string();
        assert_eq!(problem, expected);
    };
    refused("resource \"a_b\" \"c\" {\n}", "main.tf:1: the argument \"name\" is required");
    refused(
        "resource \"a_b\" \"c\" {\n name = 1\n other = 2\n}",
        "main.tf:3: there is no argument \"other\"",
    );
    refused("resource \"a_b\" \"c\" {\n name = 1\n id = 2\n}", "main.tf:3: \"id\" is the provider's to say");
    refused("resource \"a_b\" \"c\" {\n name = []\n}", "main.tf:2: a string is required, and this is a list");
    refused("resource \"a_b\" \"c\" {\n name = 1\n rule {}\n}", "main.tf:3: there is no block \"rule\"");
    refused("resource \"a_b\" \"c\" {\n count = -1\n}", "main.tf:2: count is a whole number from 0 to 1000");
    refused(
        "resource \"a_b\" \"c\" {\n for_each = [\"a\"]\n}",
        "main.tf:2: for_each takes a map, or a set of strings",
    );
    refused(
        "resource \"a_b\" \"c\" {\n name = 1\n lifecycle {\n precondition {\n condition = false\n error_message = \"no\"\n}\n}\n}",
        "main.tf:5: no",
    );
}

proptest::proptest! {
    /// Files are foreign: whatever is in them, there is an answer.
    #[test]
    fn no_file_makes_it_panic(cuts in proptest::collection::vec((0..2000_usize, 0..30_usize, "[ -~\n\"${}%]{0,12}"), 1..6)) {
        let mut letters: Vec<char> = NETWORK.chars().collect();
        for (at, length, text) in cuts {
            let at = at.min(letters.len());
            let end = (at + length).min(letters.len());
            letters.splice(at..end, text.chars());
        }
        let _ = decide(&letters.into_iter().collect::<String>(), &BTreeMap::new());
    }
}
