//! Functions that read files of the module, and templates. Nothing outside of the module's own directory is there.

use super::expression::{Nothing, Scope};
use super::problem::{File, Problem};
use super::term::Term;
use super::{template, types};

/// None if it is no such function.
pub fn call(scope: &Scope<'_>, name: &str, arguments: &[Term]) -> Option<Result<Term, Problem>> {
    let wanted = match name {
        "file" | "fileexists" => 1,
        "templatefile" | "templatestring" => 2,
        _ => return None,
    };
    if arguments.len() != wanted {
        let message = format!("{name} does not take {} arguments", arguments.len());
        return Some(Err(Problem::new(message)));
    }
    if arguments.contains(&Term::Ephemeral) {
        return Some(Err(Problem::Ephemeral));
    }
    let (first, secret) = arguments[0].clone().opened();
    let made = types::string(&first).and_then(|text| match name {
        "file" => read(scope, &text).map(Term::text),
        "fileexists" => Ok(Term::Bool(read(scope, &text).is_ok())),
        "templatefile" => rendered(scope, &text, read(scope, &text)?, &arguments[1]),
        _ => rendered(scope, "a text", &text, &arguments[1]),
    });
    Some(made.map(|term| term.secret_if(secret)).map_err(|problem| match problem {
        Problem::Wrong { place: None, message } => Problem::new(format!("{name}: {message}")),
        other => other,
    }))
}

/// A file by its path, which begins with that of the module or does not.
fn read<'a>(scope: &Scope<'a>, path: &str) -> Result<&'a str, Problem> {
    let path = path.trim_start_matches("./");
    let directory = scope.file.directory();
    let own = path.strip_prefix(directory).and_then(|rest| rest.strip_prefix('/'));
    let found = own.into_iter().chain([path]).find_map(|path| scope.file.beside.get(path));
    found.map(String::as_str).ok_or_else(|| Problem::new(format!("the module has no file {path:?}")))
}

/// A template knows what it is given, and nothing else.
fn rendered(scope: &Scope<'_>, name: &str, text: &str, given: &Term) -> Result<Term, Problem> {
    if scope.in_template {
        return Err(Problem::new("a template holds no other templates"));
    }
    let (given, secret) = given.clone().opened();
    let (Term::Object(entries) | Term::Map(entries)) = given else {
        return Err(Problem::new(format!("a map is required, and this is {}", given.kind())));
    };
    let file = File { name: name.to_owned(), text: text.to_owned(), beside: scope.file.beside.clone() };
    let parsed = hcl_edit::parser::parse_template(text).map_err(|error| Problem::Wrong {
        place: Some(format!("{name}:{}", error.location().line())),
        message: format!("this cannot be read: {}", error.message()),
    })?;
    let inner = Scope {
        file: &file,
        names: &Nothing,
        budget: scope.budget,
        bound: entries.into_iter().collect(),
        in_template: true,
    };
    Ok(template::whole(&inner, &parsed)?.secret_if(secret))
}
