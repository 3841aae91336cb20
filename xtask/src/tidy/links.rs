//! Links between our own pages: the file has to be there, and so has the heading.

use std::collections::BTreeSet;
use std::path::Path;

use super::listed;

pub fn check(findings: &mut Vec<String>) -> anyhow::Result<()> {
    for path in listed("*.md")? {
        let text = std::fs::read_to_string(&path)?;
        let here = path.parent().unwrap_or(Path::new(""));
        for (number, link) in links(&text) {
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { path.clone() } else { here.join(file) };
            let place = format!("{}:{number}", path.display());
            if !target.exists() {
                findings.push(format!("{place}: {link} leads nowhere"));
            } else if !heading.is_empty() && !anchors(&std::fs::read_to_string(target)?).contains(heading) {
                findings.push(format!("{place}: {link} leads to a heading that is not there"));
            }
        }
    }
    Ok(())
}

/// What a page links to in this project, with the line it stands in. Code shows links that are none.
fn links(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut in_code = false;
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        }
        if in_code {
            continue;
        }
        for rest in line.split('`').step_by(2).flat_map(|prose| prose.split("](").skip(1)) {
            let link = rest.split(')').next().unwrap_or_default();
            if !link.contains("://") && !link.starts_with("mailto:") {
                found.push((index + 1, link));
            }
        }
    }
    found
}

/// The headings of a page, as links name them: in small letters, blanks as dashes, other signs left out.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = text.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#'));
    headings
        .map(|heading| {
            let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
            kept.map(|c| if c == ' ' { '-' } else { c }).collect::<String>().to_lowercase()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_of_a_page() {
        let text = "[a](b.md#c), [`d`](e/f.md)\n```\n[g](h)\n```\n[i](https://j) `[k](l)` [m](#n)";
        assert_eq!(links(text), [(1, "b.md#c"), (1, "e/f.md"), (5, "#n")]);
    }

    #[test]
    fn headings_of_a_page() {
        let expected: BTreeSet<String> = ["what-it-costs", "hangar-up-flags"].map(str::to_owned).into();
        assert_eq!(anchors("# What it costs\ntext\n## `hangar up`: flags\n"), expected);
    }
}
