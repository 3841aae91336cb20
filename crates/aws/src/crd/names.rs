//! Published names: the model's words as ACK spells them (`KmsMasterKeyId` is `kmsMasterKeyID`).
//!
//! Initialisms are spelled in capitals inside a word and in small letters at its front. The table says which
//! runs of letters are initialisms, and before which letters they are not (`Identifier` holds no `Id`). Its order
//! is ACK's and matters where one row's letters are another's.

/// Rows of the table of initialisms.
enum Row {
    /// Found with one capital or, at the front, in capitals; spelled in capitals or in small letters.
    Plain(&'static [&'static str]),
    /// Found in these spellings, each unless certain letters follow (`^` is any capital).
    Told {
        found: &'static [(&'static str, &'static [&'static str])],
        inside: &'static str,
        front: &'static str,
    },
}

const TABLE: &[Row] = &[
    Row::Told { found: &[("Ids", &[])], inside: "IDs", front: "ids" },
    Row::Told {
        found: &[("Id", &["entifier", "le", "entity", "entities", "empotency", "c"])],
        inside: "ID",
        front: "id",
    },
    Row::Told { found: &[("Idc", &[])], inside: "IDC", front: "idc" },
    Row::Told { found: &[("Dbi", &[])], inside: "DBI", front: "dbi" },
    Row::Told { found: &[("Db", &["i"])], inside: "DB", front: "db" },
    Row::Told { found: &[("DB", &[])], inside: "DB", front: "db" },
    Row::Told { found: &[("CACert", &[])], inside: "CACert", front: "caCert" },
    Row::Told { found: &[("MD5Of", &[]), ("Md5Of", &[])], inside: "MD5Of", front: "md5Of" },
    Row::Told { found: &[("Ipc", &[])], inside: "IPC", front: "ipc" },
    Row::Told { found: &[("IPAddress", &[])], inside: "IPAddress", front: "ip_address" },
    Row::Told { found: &[("IPv4", &[]), ("Ipv4", &[])], inside: "IPv4", front: "ipv4" },
    Row::Told { found: &[("IPv6", &[]), ("Ipv6", &[])], inside: "IPv6", front: "ipv6" },
    Row::Told { found: &[("Ip", &["art", "am"])], inside: "IP", front: "ip" },
    Row::Told { found: &[("IPSet", &[])], inside: "IPSet", front: "ip_set" },
    Row::Told { found: &[("Amis", &[])], inside: "AMIs", front: "amis" },
    Row::Told { found: &[("Ami", &[])], inside: "AMI", front: "ami" },
    Row::Plain(&["Acl"]),
    Row::Told { found: &[("Acm", &["e"]), ("ACM", &["e"])], inside: "ACM", front: "acm" },
    Row::Plain(&["AIML", "Acp", "Api", "Arn"]),
    Row::Told { found: &[("ArgoCd", &[])], inside: "ArgoCD", front: "argoCD" },
    Row::Plain(&["Asn"]),
    Row::Told { found: &[("Awsvpc", &[])], inside: "AWSVPC", front: "awsVPC" },
    Row::Plain(&[
        "Aws", "Az", "Bgp", "Cors", "Cidr", "Cname", "Cpu", "Crl", "Cps", "Csr", "Dhcp", "Dns", "Dpd", "Ebs",
        "Ec2",
    ]),
    Row::Told { found: &[("Ecr", &["et", "ease"]), ("ecr", &["et", "ease"])], inside: "ECR", front: "ecr" },
    Row::Plain(&["Ecs"]),
    Row::Told { found: &[("Edi", &["t"])], inside: "EDI", front: "edi" },
    Row::Plain(&["Efs", "Eks"]),
    Row::Told { found: &[("Ena", &["bl"])], inside: "ENA", front: "ena" },
    Row::Plain(&["Ecmp", "Fifo", "Fpga", "Gid", "Gpu", "Grpc", "Html"]),
    Row::Told { found: &[("HTTP", &["S^"]), ("Http", &["s"])], inside: "HTTP", front: "http" },
    Row::Plain(&["Https", "Iam", "Icmp"]),
    Row::Told { found: &[("Io", &["ps"])], inside: "IO", front: "io" },
    Row::Plain(&["Iops", "Ipam", "Ja3", "Json", "Jwt", "Kms", "Ldap", "Mfa"]),
    Row::Told { found: &[("Mibps", &[])], inside: "MiBps", front: "miBps" },
    Row::Told { found: &[("Nat", &["i"])], inside: "NAT", front: "nat" },
    Row::Told { found: &[("Oid", &["c"])], inside: "OID", front: "oid" },
    Row::Told { found: &[("OID", &["C"])], inside: "OID", front: "oid" },
    Row::Plain(&["Oidc", "Ocsp", "Pca", "Pid"]),
    Row::Told { found: &[("Ramdisk", &[])], inside: "RAMDisk", front: "ramDisk" },
    Row::Told { found: &[("Ram", &[])], inside: "RAM", front: "ram" },
    Row::Plain(&[
        "Rfc", "Sasl", "Scram", "Sdk", "Sha256", "Sns", "Sqli", "Sql", "Sqs", "Sriov", "Sse", "Ssl", "Tcp",
        "Tde", "Tpm", "Tls",
    ]),
    Row::Told {
        found: &[("ttl", &["ing", "e"]), ("Ttl", &["ing", "e"]), ("TTL", &["ing", "e"])],
        inside: "TTL",
        front: "ttl",
    },
    Row::Plain(&["Udp"]),
    Row::Told { found: &[("uri", &["ty"]), ("Uri", &[]), ("URI", &[])], inside: "URI", front: "uri" },
    Row::Plain(&["Url", "Uuid"]),
    Row::Told { found: &[("Uids", &[])], inside: "UIDs", front: "uids" },
    Row::Told { found: &[("Uid", &[])], inside: "UID", front: "uid" },
    Row::Told { found: &[("UI", &["D", "d"]), ("Ui", &["D", "d"])], inside: "UI", front: "ui" },
    Row::Plain(&["Vlan"]),
    Row::Told { found: &[("Vpce", &[]), ("vpce", &[])], inside: "VPCE", front: "vpce" },
    Row::Told {
        found: &[("Vpc", &["e"]), ("VPC", &["e"]), ("vpc", &["e"]), ("VPc", &["e"])],
        inside: "VPC",
        front: "vpc",
    },
    Row::Plain(&["Vpn", "Vgw", "Waf", "Xml", "Xss", "Yaml"]),
];

/// Words that a Go field cannot have; ACK adds an underscore.
const GO_KEYWORDS: &[&str] = &[
    "break",
    "case",
    "chan",
    "const",
    "continue",
    "default",
    "defer",
    "else",
    "fallthrough",
    "for",
    "func",
    "go",
    "goto",
    "if",
    "import",
    "interface",
    "map",
    "package",
    "range",
    "return",
    "select",
    "struct",
    "switch",
    "type",
    "var",
];

/// What marks a field that holds an identifier of something else; references drop it.
const IDENTIFIER_ENDINGS: &[&str] = &[
    "id", "ids", "Id", "Ids", "ID", "IDs", "IDS", "Name", "Names", "NAME", "NAMEs", "NAMES", "Arn", "Arns",
    "ARN", "ARNs", "ARNS",
];

/// The name under which a word of the model is published.
pub fn published(word: &str) -> String {
    if word == "ID" {
        return "id".to_owned();
    }
    let spelled = spell(&lower_front(&spell(&upper_front(word))));
    if GO_KEYWORDS.contains(&spelled.as_str()) { format!("{spelled}_") } else { spelled }
}

/// The word of the field that refers to an object instead of naming its id: `SubnetIds` gives `SubnetRefs`.
pub fn reference(word: &str, of_list: bool) -> String {
    let ending = IDENTIFIER_ENDINGS.iter().find(|ending| word.ends_with(**ending));
    let stem = ending.map_or(word, |ending| &word[..word.len() - ending.len()]);
    if of_list { format!("{}Refs", singular(stem)) } else { format!("{stem}Ref") }
}

/// The plural of a kind in small letters.
pub fn plural(kind: &str) -> String {
    let kind = kind.to_ascii_lowercase();
    let vowel_before_y = kind.len() > 1 && "aeiou".contains(&kind[kind.len() - 2..kind.len() - 1]);
    if kind.ends_with('y') && !vowel_before_y {
        format!("{}ies", &kind[..kind.len() - 1])
    } else if ["s", "x", "z", "ch", "sh"].iter().any(|ending| kind.ends_with(ending)) {
        format!("{kind}es")
    } else {
        format!("{kind}s")
    }
}

/// One of what a word names many of.
pub fn singular(word: &str) -> String {
    if let Some(stem) = word.strip_suffix("ies") {
        format!("{stem}y")
    } else if word.ends_with("sses") || word.ends_with("xes") {
        word[..word.len() - 2].to_owned()
    } else if word.ends_with('s') && !word.ends_with("ss") && !word.ends_with("us") {
        word[..word.len() - 1].to_owned()
    } else {
        word.to_owned()
    }
}

/// Every initialism in its spelling.
fn spell(word: &str) -> String {
    let mut word = word.to_owned();
    for row in TABLE {
        match row {
            Row::Plain(names) => {
                for name in *names {
                    let capitals = name.to_ascii_uppercase();
                    let small = name.to_ascii_lowercase();
                    word = replace(&word, &capitals, &small, |rest, at_front| {
                        if rest.starts_with(name) || at_front && rest.starts_with(&capitals) {
                            Some(name.len())
                        } else {
                            None
                        }
                    });
                }
            }
            Row::Told { found, inside, front } => {
                word = replace(&word, inside, front, |rest, _| {
                    let spelling = found.iter().find(|(spelling, unless)| {
                        rest.strip_prefix(spelling)
                            .is_some_and(|after| !unless.iter().any(|no| follows(after, no)))
                    });
                    spelling.map(|(spelling, _)| spelling.len())
                });
            }
        }
    }
    word
}

fn follows(after: &str, letters: &str) -> bool {
    match letters.strip_suffix('^') {
        None => after.starts_with(letters),
        Some(letters) => after
            .strip_prefix(letters)
            .is_some_and(|rest| rest.starts_with(|letter: char| letter.is_ascii_uppercase())),
    }
}

/// Puts `front` for what is found at the front and `inside` for what is found elsewhere; `found` gives a length.
fn replace(word: &str, inside: &str, front: &str, found: impl Fn(&str, bool) -> Option<usize>) -> String {
    let mut result = String::with_capacity(word.len());
    let mut rest = word;
    while let Some(letter) = rest.chars().next() {
        let at_front = rest.len() == word.len();
        match found(rest, at_front) {
            Some(length) if length > 0 => {
                result.push_str(if at_front { front } else { inside });
                rest = &rest[length..];
            }
            _ => {
                result.push(letter);
                rest = &rest[letter.len_utf8()..];
            }
        }
    }
    result
}

fn upper_front(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect()
}

/// Camel case with a small first letter; what follows a separator or a digit is a capital.
fn lower_front(word: &str) -> String {
    let mut result = String::with_capacity(word.len());
    let mut capital_next = false;
    for (at, letter) in word.char_indices() {
        match letter {
            _ if letter.is_ascii_alphabetic() => {
                result.push(if at == 0 {
                    letter.to_ascii_lowercase()
                } else if capital_next {
                    letter.to_ascii_uppercase()
                } else {
                    letter
                });
                capital_next = false;
            }
            _ if letter.is_ascii_digit() => {
                result.push(letter);
                capital_next = true;
            }
            _ => capital_next = true,
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_the_model_as_they_are_published() {
        for (word, expected) in [
            ("KmsMasterKeyId", "kmsMasterKeyID"),
            ("SqsManagedSseEnabled", "sqsManagedSSEEnabled"),
            ("VpcId", "vpcID"),
            ("DBInstanceIdentifier", "dbInstanceIdentifier"),
            ("DbiResourceId", "dbiResourceID"),
            ("CACertificateIdentifier", "caCertificateIdentifier"),
            ("EnableDns64", "enableDNS64"),
            ("EnableResourceNameDnsAAAARecord", "enableResourceNameDNSAAAARecord"),
            ("Ipv6CidrBlock", "ipv6CIDRBlock"),
            ("SSEKMSKeyId", "sseKMSKeyID"),
            ("HTTPSPort", "httpsPort"),
            ("Type", "type_"),
            ("type", "type_"),
            ("Default", "default_"),
            ("IdleTimeout", "idleTimeout"),
            ("S3Bucket", "s3Bucket"),
            ("argoCd", "argoCD"),
            ("ID", "id"),
            ("awsvpcConfiguration", "awsVPCConfiguration"),
            ("PropagatingVgws", "propagatingVGWs"),
        ] {
            assert_eq!(published(word), expected, "{word}");
        }
    }

    #[test]
    fn references() {
        for (word, of_list, expected) in [
            ("SubnetIds", true, "SubnetRefs"),
            ("Policies", true, "PolicyRefs"),
            ("SecurityGroups", true, "SecurityGroupRefs"),
            ("VpcId", false, "VpcRef"),
            ("RoleArn", false, "RoleRef"),
            ("Policy", false, "PolicyRef"),
        ] {
            assert_eq!(reference(word, of_list), expected, "{word}");
        }
    }

    #[test]
    fn plurals() {
        for (kind, expected) in
            [("Queue", "queues"), ("Policy", "policies"), ("EventBus", "eventbuses"), ("APIKey", "apikeys")]
        {
            assert_eq!(plural(kind), expected);
        }
    }
}
