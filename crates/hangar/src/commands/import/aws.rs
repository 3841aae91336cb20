//! `hangar import aws`: what is in an account already, as objects that take it over without changing it.

use std::collections::BTreeSet;
use std::path::PathBuf;

use ::aws::driver::AwsDriver;
use ::aws::kinds::{self, KindFacts};
use anyhow::bail;
use clap::Args;
use egress::Egress;
use objects::{Value, meta};

use crate::clouds::Shared;
use crate::clouds::aws::AwsOptions;
use crate::files;

#[derive(Args, Clone, Debug)]
pub struct ImportAws {
    /// the service, as in ACK's groups: s3, sqs, ec2
    #[arg(long, value_name = "SERVICE")]
    service: String,
    /// only this kind of the service, such as Bucket
    #[arg(long, value_name = "KIND")]
    kind: Vec<String>,
    /// the region to look in [default: that of --aws-region, the environment or the profile]
    #[arg(long, value_name = "REGION")]
    region: Option<String>,
    /// the namespace to write into the objects
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// the file to write to [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    aws: AwsOptions,
}

pub async fn run(mut import: ImportAws) -> anyhow::Result<()> {
    let kinds = wanted(&import.service, &import.kind)?;
    import.aws.aws_region = import.region.take().or(import.aws.aws_region);
    // It asks the account of whoever runs this command, and no control plane.
    let driver = import.aws.driver(&Shared::of_cluster([0; 32], Egress::default())).await?;
    let region = driver.region().to_owned();
    if region.is_empty() {
        bail!("no region is known: give --region");
    }
    let mut found = Found::default();
    for kind in kinds {
        Box::pin(found.add(&driver, kind, &region, import.namespace.as_deref())).await;
    }
    match &import.output {
        Some(file) => files::write_private(file, found.text.as_bytes())?,
        None => crate::commands::list::print(&found.text)?,
    }
    match found.failed {
        0 => Ok(()),
        failed => bail!("{failed} of the kinds could not be listed"),
    }
}

/// The kinds of a service, or those of them that are named.
fn wanted(service: &str, named: &[String]) -> anyhow::Result<Vec<&'static KindFacts>> {
    let of_service: Vec<_> = kinds::all().iter().filter(|kind| kind.service == service).collect();
    if of_service.is_empty() {
        bail!("{service:?} is no service of AWS that is known; use ACK's names, such as s3");
    }
    for name in named {
        if !of_service.iter().any(|kind| kind.kind == name) {
            bail!("{service} has no kind {name:?}");
        }
    }
    let is_wanted = |kind: &&KindFacts| named.is_empty() || named.iter().any(|name| name == kind.kind);
    Ok(of_service.into_iter().filter(is_wanted).collect())
}

/// What was found so far. What there is to say of it goes to standard error, objects may be on the other.
#[derive(Default)]
struct Found {
    text: String,
    failed: usize,
    names: BTreeSet<(String, String)>,
}

impl Found {
    async fn add(
        &mut self,
        driver: &AwsDriver,
        kind: &'static KindFacts,
        region: &str,
        namespace: Option<&str>,
    ) {
        let about = format!("{} {}", kind.service, kind.kind);
        match driver.existing(kind, region).await {
            Ok(None) => eprintln!("{about}: cannot be listed"),
            Ok(Some(existing)) => {
                eprintln!("{about}: {} found", existing.objects.len());
                existing.unread.iter().for_each(|why| eprintln!("{about}: not read: {why}"));
                existing.objects.into_iter().for_each(|object| self.write(object, namespace));
            }
            Err(failure) => {
                self.failed += 1;
                eprintln!("{about}: {failure}");
            }
        }
    }

    fn write(&mut self, mut object: Value, namespace: Option<&str>) {
        let name = self.free_name(meta::kind(&object), meta::name(&object));
        meta::set(&mut object, "name", name);
        if let Some(namespace) = namespace {
            meta::set(&mut object, "namespace", namespace);
        }
        if !self.text.is_empty() {
            self.text.push_str("---\n");
        }
        let document = wire::yaml::encode(&object);
        self.text.push_str(document.trim_end());
        self.text.push('\n');
    }

    /// Two resources whose names differ only in letters that objects cannot have are told apart by a number.
    fn free_name(&mut self, kind: &str, name: &str) -> String {
        let numbered = (2..).map(|number| format!("{name}-{number}"));
        let mut names = std::iter::once(name.to_owned()).chain(numbered);
        let free = names.find(|name| !self.names.contains(&(kind.to_owned(), name.clone())));
        let free = free.unwrap_or_else(|| name.to_owned());
        self.names.insert((kind.to_owned(), free.clone()));
        free
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_asked_for() {
        assert_eq!(wanted("sqs", &[]).unwrap().len(), 1);
        assert_eq!(wanted("iam", &["Role".to_owned()]).unwrap()[0].kind, "Role");
        assert!(wanted("iam", &["Bucket".to_owned()]).is_err());
        assert!(wanted("nothing", &[]).is_err());
    }

    #[test]
    fn documents_have_names_of_their_own() {
        let mut found = Found::default();
        for name in ["a", "a", "b"] {
            found.write(json!({"kind": "Bucket", "metadata": {"name": name}}), Some("team"));
        }
        let names: Vec<_> = found.text.lines().filter(|line| line.contains(" name:")).collect();
        assert_eq!(names, ["  name: a", "  name: a-2", "  name: b"]);
        assert_eq!(found.text.matches("---\n").count(), 2);
        assert_eq!(found.text.matches("  namespace: team").count(), 3);
    }
}
