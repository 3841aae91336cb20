//! What the `source` of a call means.

use super::git::Repository;

/// Where a called module is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// From where the caller is.
    Relative(String),
    /// Below the directory of modules.
    Below(String),
    /// A repository, where in it the module is, and where the directory of modules would have it.
    Repository { repository: Repository, inside: String, below: String },
    /// An archive, what it has to come to, and where in it the module is.
    Archive { url: String, sha256: String, inside: String },
}

const NEEDS_CHECKSUM: &str =
    "an archive needs its checksum: add ?checksum=sha256: and 64 hexadecimal digits to the source";

impl Source {
    pub fn parse(text: &str, version: Option<&str>) -> Result<Source, String> {
        if text.starts_with("./") || text.starts_with("../") {
            return Ok(Source::Relative(text.to_owned()));
        }
        if let Some(repository) = text.strip_prefix("git::") {
            return Ok(repository_of(repository));
        }
        if ["http://", "https://", "file://"].iter().any(|scheme| text.starts_with(scheme)) {
            return archive(text);
        }
        if text.starts_with("git@") || text.starts_with("github.com/") || text.starts_with("bitbucket.org/") {
            return Ok(repository_of(text));
        }
        let (address, inside) = split(text);
        let parts: Vec<&str> = address.split('/').collect();
        let plain = parts.iter().all(|part| !part.is_empty() && !part.contains([':', '?', '@']));
        if !plain || !(3..=4).contains(&parts.len()) {
            return Err(format!("the source {text:?} is not understood"));
        }
        let version = version.map(str::trim).map(|version| version.trim_start_matches(['=', ' ']));
        let exact = version.is_none_or(|version| version.starts_with(|c: char| c.is_ascii_digit()));
        if !exact || version.is_some_and(|version| version.contains([',', ' '])) {
            return Err("the version of a module is one version here, not a range".into());
        }
        Ok(Source::Below(joined(address, version, inside)))
    }
}

/// `PLACE//INSIDE`: a module in what is at a place. The slashes of a scheme are none of these.
fn split(text: &str) -> (&str, &str) {
    let scheme = text.find("://").map_or(0, |at| at + 3);
    match text[scheme..].find("//") {
        Some(at) => (&text[..scheme + at], &text[scheme + at + 2..]),
        None => (text, ""),
    }
}

fn joined(place: &str, reference: Option<&str>, inside: &str) -> String {
    let mut path = place.to_owned();
    if let Some(reference) = reference.filter(|reference| !reference.is_empty()) {
        path.push('@');
        path.push_str(reference);
    }
    if !inside.is_empty() {
        path.push('/');
        path.push_str(inside);
    }
    path
}

/// A repository by any of its names.
fn repository_of(text: &str) -> Source {
    let (whole, query) = text.split_once('?').unwrap_or((text, ""));
    let reference = query.split('&').find_map(|pair| pair.strip_prefix("ref="));
    repository(whole, reference)
}

/// The same with its version beside it.
pub fn repository(whole: &str, reference: Option<&str>) -> Source {
    let (address, inside) = split(whole);
    let place = address.split_once("://").map_or(address, |(_, rest)| rest);
    let place = place.split_once('@').map_or(place, |(_, rest)| rest).replacen(':', "/", 1);
    Source::Repository {
        repository: Repository::of(address, reference),
        inside: inside.to_owned(),
        below: joined(place.trim_end_matches(".git"), reference, inside),
    }
}

fn archive(text: &str) -> Result<Source, String> {
    let (whole, query) = text.split_once('?').unwrap_or((text, ""));
    let checksum = query.split('&').find_map(|pair| pair.strip_prefix("checksum=sha256:"));
    let checksum = checksum.filter(|sum| is_sha256(sum)).ok_or(NEEDS_CHECKSUM)?;
    let others: Vec<&str> = query
        .split('&')
        .filter(|pair| !pair.is_empty() && !pair.starts_with("checksum=") && !pair.starts_with("archive="))
        .collect();
    let (place, inside) = split(whole);
    let query = if others.is_empty() { String::new() } else { format!("?{}", others.join("&")) };
    Ok(Source::Archive {
        url: format!("{place}{query}"),
        sha256: checksum.to_ascii_lowercase(),
        inside: inside.to_owned(),
    })
}

pub fn is_sha256(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// A path from a directory, without `.` and `..`; nothing if it leads out.
pub fn walked(from: &str, steps: &str) -> Option<String> {
    let mut path: Vec<&str> = from.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    for step in steps.split('/').filter(|step| !step.is_empty() && *step != ".") {
        if step == ".." {
            path.pop()?;
        } else {
            path.push(step);
        }
    }
    Some(path.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources() {
        let check = |text: &str, version: Option<&str>, expected: &str| {
            assert_eq!(Source::parse(text, version), Ok(Source::Below(expected.into())), "{text}");
        };
        check("terraform-aws-modules/vpc/aws", Some("5.1.0"), "terraform-aws-modules/vpc/aws@5.1.0");
        check(
            "terraform-aws-modules/iam/aws//modules/role",
            Some("= 5.1.0"),
            "terraform-aws-modules/iam/aws@5.1.0/modules/role",
        );
        check("app.example.com/team/net/aws", None, "app.example.com/team/net/aws");
        let repository = |text: &str, url: &str, reference: Option<&str>, inside: &str, below: &str| {
            let repository = Repository::of(url, reference);
            let expected = Source::Repository { repository, inside: inside.into(), below: below.into() };
            assert_eq!(Source::parse(text, None), Ok(expected), "{text}");
        };
        let https = "https://example.com/team/net.git";
        let text = format!("git::{https}//sub?ref=v1");
        repository(&text, https, Some("v1"), "sub", "example.com/team/net@v1/sub");
        let ssh = "ssh://git@example.com/team/net.git";
        repository(&format!("git::{ssh}?ref=v1"), ssh, Some("v1"), "", "example.com/team/net@v1");
        let short = "git@github.com:example/net.git";
        repository(short, short, None, "", "github.com/example/net");
        repository(
            "github.com/example/net",
            "https://github.com/example/net",
            None,
            "",
            "github.com/example/net",
        );
        let sum = "AB".repeat(32);
        let text = format!("https://example.com/a.zip//net?checksum=sha256:{sum}&x=1");
        let expected = Source::Archive {
            url: "https://example.com/a.zip?x=1".into(),
            sha256: sum.to_lowercase(),
            inside: "net".into(),
        };
        assert_eq!(Source::parse(&text, None), Ok(expected));
        let refused = |text: &str, version: Option<&str>, expected: &str| {
            assert_eq!(Source::parse(text, version).unwrap_err(), expected);
        };
        refused("https://example.com/a.zip", None, NEEDS_CHECKSUM);
        refused("a/b/c", Some("~> 1.0"), "the version of a module is one version here, not a range");
        refused("net", None, "the source \"net\" is not understood");
        refused("s3::https", None, "the source \"s3::https\" is not understood");
    }

    #[test]
    fn ways() {
        assert_eq!(walked("a/b", "../c/./d").as_deref(), Some("a/c/d"));
        assert_eq!(walked("", "./net").as_deref(), Some("net"));
        assert_eq!(walked("a", "../../b"), None);
    }
}
