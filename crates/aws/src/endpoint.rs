//! Where a service listens: AWS's partitions and regions, or an endpoint of one's own.
//!
//! `data/endpoints.txt` (made by `cargo xtask generate aws`) has the partitions and, of every service, the hosts
//! that are not usual. A custom endpoint gets every request as it is: no prefix before the host, and the bucket
//! in the path.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use http::Uri;
use regex::Regex;

use crate::model::Service;
use crate::protocol::Request;

/// An endpoint cannot be found.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    #[error("{url:?} is no endpoint; give it as http(s)://host[:port][/path]")]
    Url { url: String },
    #[error("no region is set; set it on the object, its namespace, or by AWS_REGION")]
    NoRegion,
    #[error("{region:?} is no region of AWS")]
    Region { region: String },
}

/// What an operator or a namespace says about endpoints.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Settings {
    /// For every service.
    pub url: Option<String>,
    /// For single services, by ACK's name of them; these win.
    pub services: BTreeMap<String, String>,
    pub fips: bool,
    pub dual_stack: bool,
    /// The bucket in the path also where AWS itself is asked.
    pub path_style: bool,
}

impl Settings {
    /// From the variables that AWS's own tools know: `AWS_ENDPOINT_URL`, `AWS_ENDPOINT_URL_<SERVICE>`,
    /// `AWS_IGNORE_CONFIGURED_ENDPOINT_URLS`, `AWS_USE_FIPS_ENDPOINT`, `AWS_USE_DUALSTACK_ENDPOINT`.
    pub fn from_variables(variables: impl IntoIterator<Item = (String, String)>) -> Settings {
        let variables: BTreeMap<String, String> = variables.into_iter().collect();
        let truth = |name: &str| variables.get(name).is_some_and(|value| value.eq_ignore_ascii_case("true"));
        let mut settings = Settings {
            fips: truth("AWS_USE_FIPS_ENDPOINT"),
            dual_stack: truth("AWS_USE_DUALSTACK_ENDPOINT"),
            ..Settings::default()
        };
        if truth("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS") {
            return settings;
        }
        settings.url = variables.get("AWS_ENDPOINT_URL").filter(|url| !url.is_empty()).cloned();
        for (variable, url) in &variables {
            let Some(id) = variable.strip_prefix("AWS_ENDPOINT_URL_") else { continue };
            if let Some(name) = crate::model::by_id(id) {
                settings.services.insert(name.to_owned(), url.clone());
            }
        }
        settings
    }
}

/// Where to send the requests of a service in a region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// `http` or `https`.
    pub scheme: String,
    pub authority: String,
    /// Before every path; empty or with a leading slash.
    pub base_path: String,
    pub signing_region: String,
    /// Chosen by the operator, not AWS's.
    pub is_custom: bool,
}

struct Partition {
    id: &'static str,
    suffix: &'static str,
    dual_suffix: &'static str,
    regions: Regex,
}

struct Table {
    partitions: Vec<Partition>,
    /// By service, partition, variant and region (empty for all of them): host and region of the signature.
    hosts: BTreeMap<[&'static str; 4], (&'static str, &'static str)>,
}

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let mut table = Table { partitions: Vec::new(), hosts: BTreeMap::new() };
    for line in include_str!("../data/endpoints.txt").lines() {
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["partition", id, suffix, dual_suffix, pattern] => {
                let Ok(regions) = Regex::new(pattern) else { continue };
                table.partitions.push(Partition { id, suffix, dual_suffix, regions });
            }
            ["host", service, partition, variant, host, signing] => {
                table.hosts.insert([service, partition, variant, ""], (host, signing));
            }
            ["region", service, partition, variant, region, host, signing] => {
                table.hosts.insert([service, partition, variant, region], (host, signing));
            }
            _ => {}
        }
    }
    table
});

/// The partition of a region, such as `aws-cn`; `aws` for what no pattern knows.
pub fn partition(region: &str) -> &'static str {
    find_partition(region).map_or("aws", |partition| partition.id)
}

fn find_partition(region: &str) -> Option<&'static Partition> {
    TABLE.partitions.iter().find(|partition| partition.regions.is_match(region))
}

/// Where a service listens for a region.
pub fn resolve(service: &Service, region: &str, settings: &Settings) -> Result<Endpoint, EndpointError> {
    if region.is_empty() {
        return Err(EndpointError::NoRegion);
    }
    let custom = settings.services.get(service.name()).or(settings.url.as_ref());
    if let Some(url) = custom {
        return custom_endpoint(url, region);
    }
    let label = region.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    // Regions that are newer than the table are taken for what their names look like.
    let partition = find_partition(region).or_else(|| TABLE.partitions.first()).filter(|_| label);
    let partition = partition.ok_or_else(|| EndpointError::Region { region: region.to_owned() })?;
    let (variant, fips) = match (settings.fips, settings.dual_stack) {
        (false, false) => ("plain", ""),
        (false, true) => ("dual", ""),
        (true, false) => ("fips", "-fips"),
        (true, true) => ("fips-dual", "-fips"),
    };
    let suffix = if settings.dual_stack { partition.dual_suffix } else { partition.suffix };
    let row = |region: &str| {
        let found =
            TABLE.hosts.iter().find(|(key, _)| **key == [service.name(), partition.id, variant, region]);
        found.map(|(_, (host, signing))| ((*host).to_owned(), *signing))
    };
    let usual = || (format!("{}{fips}.{{region}}.{suffix}", service.endpoint_prefix()), "-");
    let (host, signing) = row(region).or_else(|| row("")).unwrap_or_else(usual);
    Ok(Endpoint {
        scheme: "https".to_owned(),
        authority: host.replace("{region}", region),
        base_path: String::new(),
        signing_region: if signing == "-" { region.to_owned() } else { signing.to_owned() },
        is_custom: false,
    })
}

fn custom_endpoint(url: &str, region: &str) -> Result<Endpoint, EndpointError> {
    let wrong = || EndpointError::Url { url: url.to_owned() };
    let uri: Uri = url.parse().map_err(|_| wrong())?;
    let scheme = uri.scheme_str().filter(|scheme| ["http", "https"].contains(scheme)).ok_or_else(wrong)?;
    let authority =
        uri.authority().filter(|authority| !authority.as_str().contains('@')).ok_or_else(wrong)?;
    Ok(Endpoint {
        scheme: scheme.to_owned(),
        authority: authority.to_string(),
        base_path: uri.path().trim_end_matches('/').to_owned(),
        signing_region: region.to_owned(),
        is_custom: true,
    })
}

/// A request's place: authority and path.
pub(crate) struct Target {
    pub scheme: String,
    pub authority: String,
    pub path: String,
    /// Where it is not the service's own.
    pub signing_name: Option<&'static str>,
}

/// Puts a request at an endpoint. `bucket` is the bucket of an S3 request, which AWS has in the host.
pub(crate) fn place(
    endpoint: &Endpoint,
    request: &Request,
    bucket: Option<&str>,
    path_style: bool,
) -> Target {
    let mut target = Target {
        scheme: endpoint.scheme.clone(),
        authority: endpoint.authority.clone(),
        path: format!("{}{}", endpoint.base_path, request.path),
        signing_name: None,
    };
    if endpoint.is_custom {
        return target;
    }
    if let Some(prefix) = &request.host_prefix {
        target.authority = format!("{prefix}{}", target.authority);
    }
    match bucket {
        // The configuration of directory buckets has a service of its own.
        Some(bucket) if bucket.ends_with("--x-s3") => {
            target.authority = target.authority.replacen("s3.", "s3express-control.", 1);
            target.signing_name = Some("s3express");
        }
        Some(bucket) if !path_style && is_host_label(bucket) => {
            let encoded = format!("/{bucket}");
            if let Some(rest) = target.path.strip_prefix(&encoded) {
                target.path = if rest.is_empty() { "/".to_owned() } else { rest.to_owned() };
                target.authority = format!("{bucket}.{}", target.authority);
            }
        }
        _ => {}
    }
    target
}

/// Whether a bucket's name can stand in a host under a wildcard certificate.
fn is_host_label(bucket: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (3..=63).contains(&bucket.len())
        && bucket.bytes().all(fits)
        && !bucket.starts_with('-')
        && !bucket.ends_with('-')
}

#[cfg(test)]
mod tests;
