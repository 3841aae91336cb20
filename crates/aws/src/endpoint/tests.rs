use super::*;
use crate::model::service;

#[test]
fn hosts_of_aws() {
    let check = |name: &str, region: &str, fips, dual_stack, host: &str, signing: &str| {
        let settings = Settings { fips, dual_stack, ..Settings::default() };
        let endpoint = resolve(service(name).unwrap(), region, &settings).unwrap();
        assert_eq!((endpoint.authority.as_str(), endpoint.signing_region.as_str()), (host, signing));
    };
    check("sqs", "eu-west-1", false, false, "sqs.eu-west-1.amazonaws.com", "eu-west-1");
    check("sqs", "eu-west-1", false, true, "sqs.eu-west-1.api.aws", "eu-west-1");
    check("sqs", "us-east-1", true, false, "sqs-fips.us-east-1.amazonaws.com", "us-east-1");
    check("sqs", "cn-north-1", false, false, "sqs.cn-north-1.amazonaws.com.cn", "cn-north-1");
    check("iam", "eu-west-1", false, false, "iam.amazonaws.com", "us-east-1");
    check("iam", "us-gov-west-1", false, false, "iam.us-gov.amazonaws.com", "us-gov-west-1");
    check("route53", "ap-southeast-2", false, false, "route53.amazonaws.com", "us-east-1");
    check("s3", "us-east-1", false, false, "s3.us-east-1.amazonaws.com", "us-east-1");
    check("s3", "us-west-2", true, true, "s3-fips.dualstack.us-west-2.amazonaws.com", "us-west-2");
    check("ecr", "eu-west-1", false, false, "api.ecr.eu-west-1.amazonaws.com", "eu-west-1");
    check("sts", "eu-central-1", false, false, "sts.eu-central-1.amazonaws.com", "eu-central-1");
    check("lambda", "xx-new-1", false, false, "lambda.xx-new-1.amazonaws.com", "xx-new-1");
}

#[test]
fn what_is_no_region_or_url_is_refused() {
    let sqs = service("sqs").unwrap();
    let check = |region: &str, url: Option<&str>| {
        let settings = Settings { url: url.map(str::to_owned), ..Settings::default() };
        assert!(resolve(sqs, region, &settings).is_err(), "{region} {url:?}");
    };
    check("", None);
    check("evil.example.com/", None);
    check("eu-west-1", Some("127.0.0.1:5000"));
    check("eu-west-1", Some("ftp://127.0.0.1"));
    check("eu-west-1", Some("http://user:password@127.0.0.1"));
}

#[test]
fn endpoints_of_ones_own() {
    let settings = Settings::from_variables([
        ("AWS_ENDPOINT_URL".to_owned(), "http://127.0.0.1:5555/base/".to_owned()),
        ("AWS_ENDPOINT_URL_SECRETS_MANAGER".to_owned(), "http://127.0.0.1:1".to_owned()),
    ]);
    let endpoint = resolve(service("sqs").unwrap(), "eu-west-1", &settings).unwrap();
    assert_eq!((endpoint.authority.as_str(), endpoint.base_path.as_str()), ("127.0.0.1:5555", "/base"));
    let endpoint = resolve(service("secretsmanager").unwrap(), "eu-west-1", &settings).unwrap();
    assert_eq!(endpoint.authority, "127.0.0.1:1");
}

#[test]
fn buckets_in_hosts_and_paths() {
    let check = |url: Option<&str>, bucket: &str, path_style, expected: &str| {
        let settings = Settings { url: url.map(str::to_owned), ..Settings::default() };
        let endpoint = resolve(service("s3").unwrap(), "eu-west-1", &settings).unwrap();
        let request = Request { path: format!("/{bucket}"), ..Request::default() };
        let target = place(&endpoint, &request, Some(bucket), path_style);
        assert_eq!(format!("{}{}", target.authority, target.path), expected);
    };
    check(None, "photos", false, "photos.s3.eu-west-1.amazonaws.com/");
    check(None, "photos", true, "s3.eu-west-1.amazonaws.com/photos");
    check(None, "my.photos", false, "s3.eu-west-1.amazonaws.com/my.photos");
    check(None, "a--euw1-az1--x-s3", false, "s3express-control.eu-west-1.amazonaws.com/a--euw1-az1--x-s3");
    check(Some("http://127.0.0.1:5000"), "photos", false, "127.0.0.1:5000/photos");
}
