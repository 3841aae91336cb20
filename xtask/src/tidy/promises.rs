//! Pages that say of every row of a table which test shows it: the test has to be there.

use std::collections::BTreeSet;

use super::listed;

/// The last column of such a table is headed so.
const SHOWN_BY: &str = "shown by";

pub fn check(findings: &mut Vec<String>) -> anyhow::Result<()> {
    let mut tests = BTreeSet::new();
    for path in listed("*.rs")? {
        tests.extend(test_names(&std::fs::read_to_string(path)?));
    }
    for path in listed("docs/*.md")? {
        let text = std::fs::read_to_string(&path)?;
        for (number, names) in rows(&text) {
            let place = format!("{}:{number}", path.display());
            if names.is_empty() {
                findings.push(format!("{place}: no test is named that shows this"));
            }
            for name in names.into_iter().filter(|name| !tests.contains(name)) {
                findings.push(format!("{place}: there is no test {name}"));
            }
        }
    }
    Ok(())
}

/// Functions that are tests.
fn test_names(text: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut is_test = false;
    for line in text.lines().map(str::trim_start) {
        if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
            is_test = true;
        } else if let Some((_, rest)) = line.split_once("fn ").filter(|_| is_test) {
            names.extend(rest.split(['(', '<']).next().map(str::to_owned));
            is_test = false;
        }
    }
    names
}

/// The rows of tables whose last column says which tests show them: the line, and the names in code there.
fn rows(text: &str) -> Vec<(usize, Vec<String>)> {
    let mut rows = Vec::new();
    let mut inside = false;
    for (index, line) in text.lines().enumerate() {
        let Some(last) = last_cell(line) else {
            inside = false;
            continue;
        };
        if last.eq_ignore_ascii_case(SHOWN_BY) {
            inside = true;
        } else if inside && !last.starts_with("---") {
            let names = last.split('`').skip(1).step_by(2).map(str::to_owned).collect();
            rows.push((index + 1, names));
        }
    }
    rows
}

fn last_cell(line: &str) -> Option<&str> {
    let inner = line.trim().strip_prefix('|')?.strip_suffix('|')?;
    inner.rsplit('|').next().map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_of_promises() {
        let text = "| what | shown by |\n|---|---|\n| a \\| b | `one`, `two` |\n| c | |\n\n| other |\n|---|\n| `x` |\n";
        let expected = vec![(3, vec!["one".to_owned(), "two".to_owned()]), (4, vec![])];
        assert_eq!(rows(text), expected);
    }

    #[test]
    fn tests_in_a_file() {
        let text = "#[test]\nfn one() {\n}\nfn helper() {}\n#[tokio::test(flavor = \"x\")]\n#[ignore]\n    async fn two<T>() {";
        let expected: BTreeSet<String> = ["one", "two"].map(str::to_owned).into();
        assert_eq!(test_names(text), expected);
    }
}
