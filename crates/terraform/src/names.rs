//! Kubeform's names: groups, kinds, plurals and fields, made from the names of Terraform types and attributes.

use std::collections::BTreeMap;

/// Words that are written in capitals when they are not the first one, alone or in the plural.
const INITIALISMS: [&str; 37] = [
    "acl", "api", "ascii", "cpu", "css", "dns", "eof", "guid", "html", "http", "https", "id", "ip", "json",
    "lhs", "qps", "ram", "rhs", "rpc", "sla", "smtp", "sql", "ssh", "tcp", "tls", "ttl", "udp", "ui", "uid",
    "uuid", "uri", "url", "utf8", "vm", "xml", "xmpp", "xss",
];

/// What follows the name of the provider in groups and finalizers.
pub const DOMAIN: &str = "kubeform.com";
/// Kubeform has only had this one.
pub const API_VERSION: &str = "v1alpha1";

/// How a Terraform type is called as a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KindName {
    pub group: String,
    pub kind: String,
    pub plural: String,
    /// The first word of the type: the provider, as Kubeform counts them.
    pub provider: String,
}

impl KindName {
    /// Of `linode_instance_ip`: kind `Ip` in the group `instance.linode.kubeform.com`.
    pub fn of_type(type_name: &str) -> KindName {
        let mut words = type_name.split('_').filter(|word| !word.is_empty());
        let provider = words.next().unwrap_or(type_name).to_ascii_lowercase();
        // A type that is named like its provider is in a group of the same name.
        let first = words.next().map_or_else(|| provider.clone(), str::to_ascii_lowercase);
        let rest: Vec<&str> = words.collect();
        let kind = if rest.is_empty() { capitalized(&first) } else { capitalized(&camel(&rest.join("_"))) };
        let plural = plural(&kind.to_ascii_lowercase());
        KindName { group: format!("{first}.{provider}.{DOMAIN}"), kind, plural, provider }
    }

    /// As kinds are stored: `ips.instance.linode.kubeform.com`.
    pub fn resource(&self) -> String {
        format!("{}.{}", self.plural, self.group)
    }

    pub fn finalizer(&self) -> String {
        format!("{}.{DOMAIN}/finalizer", self.provider)
    }
}

fn capitalized(text: &str) -> String {
    let mut characters = text.chars();
    match characters.next() {
        Some(first) => first.to_ascii_uppercase().to_string() + characters.as_str(),
        None => String::new(),
    }
}

fn plural(word: &str) -> String {
    let consonant_y = || {
        let before = word.strip_suffix('y').and_then(|stem| stem.chars().last());
        before.is_some_and(|letter| !"aeiou".contains(letter))
    };
    if consonant_y() {
        format!("{}ies", &word[..word.len() - 1])
    } else if ["ss", "sh", "ch", "x", "z"].iter().any(|end| word.ends_with(end)) {
        format!("{word}es")
    } else if word.ends_with('s') {
        word.to_owned()
    } else {
        format!("{word}s")
    }
}

fn initialism(word: &str) -> bool {
    INITIALISMS.contains(&word) || word.strip_suffix('s').is_some_and(|word| INITIALISMS.contains(&word))
}

/// `private_ip_address` as `privateIPAddress`.
fn camel(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for word in name.split('_').filter(|word| !word.is_empty()) {
        if out.is_empty() {
            out.push_str(word);
        } else if initialism(word) {
            out.push_str(&word.to_ascii_uppercase());
        } else {
            out.push_str(&capitalized(word));
        }
    }
    out
}

/// The name of an attribute as a field. `top` for those right below `spec.resource`.
fn field(name: &str, top: bool) -> String {
    if name == "id" && !top { "ID".to_owned() } else { camel(name) }
}

/// The names of a block's members as fields, both ways. A field that two members would share is the first one's, in
/// the order of the provider's names; the other keeps the provider's name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldNames {
    to_field: BTreeMap<String, String>,
    to_member: BTreeMap<String, String>,
}

impl FieldNames {
    pub fn new<'a>(members: impl Iterator<Item = &'a String>, top: bool) -> FieldNames {
        let mut names = FieldNames::default();
        for member in members {
            let mut name = field(member, top);
            if names.to_member.contains_key(&name) {
                name = member.clone();
            }
            names.to_member.insert(name.clone(), member.clone());
            names.to_field.insert(member.clone(), name);
        }
        names
    }

    pub fn field(&self, member: &str) -> Option<&str> {
        self.to_field.get(member).map(String::as_str)
    }

    pub fn member(&self, field: &str) -> Option<&str> {
        self.to_member.get(field).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds() {
        fn check(type_name: &str, group: &str, kind: &str, plural: &str) {
            let name = KindName::of_type(type_name);
            let expected = (format!("{group}.kubeform.com"), kind.to_owned(), plural.to_owned());
            assert_eq!((name.group, name.kind, name.plural), expected, "{type_name}");
        }
        check("linode_instance", "instance.linode", "Instance", "instances");
        check("linode_instance_ip", "instance.linode", "Ip", "ips");
        check("linode_object_storage_bucket", "object.linode", "StorageBucket", "storagebuckets");
        check("linode_lke_cluster", "lke.linode", "Cluster", "clusters");
        check("linode_rdns", "rdns.linode", "Rdns", "rdns");
        check("aws_s3_bucket", "s3.aws", "Bucket", "buckets");
        check("google_compute_instance", "compute.google", "Instance", "instances");
        check("aws_wafv2_web_acl", "wafv2.aws", "WebACL", "webacls");
        check("aws_iam_policy", "iam.aws", "Policy", "policies");
        check("google_compute_address", "compute.google", "Address", "addresses");
        check("http", "http.http", "Http", "https");
        assert_eq!(KindName::of_type("linode_instance").finalizer(), "linode.kubeform.com/finalizer");
    }

    #[test]
    fn fields() {
        fn check(member: &str, top: bool, expected: &str) {
            assert_eq!(field(member, top), expected);
        }
        check("region", true, "region");
        check("private_ip_address", true, "privateIPAddress");
        check("disk_id", true, "diskID");
        check("subnet_ids", true, "subnetIDS");
        check("customer_dns_ips", true, "customerDNSIPS");
        check("dns_support", true, "dnsSupport");
        check("arn", true, "arn");
        check("id", true, "id");
        check("id", false, "ID");
        check("vpc_id", false, "vpcID");
    }

    #[test]
    fn two_members_never_share_a_field() {
        let members = ["disk_id".to_owned(), "disk__id".to_owned()];
        let names = FieldNames::new(members.iter(), true);
        assert_eq!(names.field("disk_id"), Some("diskID"));
        assert_eq!(names.field("disk__id"), Some("disk__id"));
        assert_eq!(names.member("disk__id"), Some("disk__id"));
    }
}
