"""Where AWS's services listen, from botocore's endpoint rules: only what is not usual.

Usual is PREFIX[-fips].REGION.SUFFIX, signed for the region. Lines:
  partition ID SUFFIX DUALSTACK_SUFFIX REGEX
  host SERVICE PARTITION VARIANT HOST SIGNING_REGION     (REGION in HOST is {region}; - is the region itself)
  region SERVICE PARTITION VARIANT REGION HOST SIGNING_REGION
Arguments: pairs of the name in botocore and the name in the table.
"""

import collections
import sys

import botocore.session
from botocore.endpoint_provider import EndpointProvider

loader = botocore.session.get_session().get_component("data_loader")
partitions = loader.load_data("partitions")
# Parameters of single services that no setting of ours changes.
FIXED = {"UseGlobalEndpoint": False, "AccountIdEndpointMode": "disabled", "RequiresAccountId": False}
VARIANTS = {"plain": (False, False), "dual": (False, True), "fips": (True, False), "fips-dual": (True, True)}


def resolved(provider, known, region, fips, dual):
    wanted = {"Region": region, "UseFIPS": fips, "UseDualStack": dual, **FIXED}
    try:
        found = provider.resolve_endpoint(**{name: value for name, value in wanted.items() if name in known})
    except Exception:
        return None  # the rules refuse it: there is no such endpoint
    schemes = found.properties.get("authSchemes") or []
    signing = [scheme["signingRegion"] for scheme in schemes if scheme.get("signingRegion")]
    return found.url.removeprefix("https://"), (signing or [region])[0]


for partition in partitions["partitions"]:
    outputs = partition["outputs"]
    print("partition", partition["id"], outputs["dnsSuffix"], outputs["dualStackDnsSuffix"], partition["regionRegex"])
for model, name in zip(sys.argv[1::2], sys.argv[2::2]):
    rules = loader.load_service_model(model, "endpoint-rule-set-1")
    prefix = loader.load_service_model(model, "service-2")["metadata"]["endpointPrefix"]
    provider = EndpointProvider(rules, partitions)
    for partition in partitions["partitions"]:
        outputs = partition["outputs"]
        for variant, (fips, dual) in VARIANTS.items():
            suffix = outputs["dualStackDnsSuffix" if dual else "dnsSuffix"]
            usual = (f"{prefix}{'-fips' if fips else ''}.{{region}}.{suffix}", "-")

            def at(template, region):
                return template[0].replace("{region}", region), region if template[1] == "-" else template[1]

            hosts = {region: resolved(provider, rules["parameters"], region, fips, dual) for region in partition["regions"] if not region.endswith("-global")}
            hosts = {region: host for region, host in hosts.items() if host}
            templates = collections.Counter()
            for region, (host, signing) in sorted(hosts.items()):
                for template in {(host, signing), (host.replace(region, "{region}"), "-" if signing == region else signing)}:
                    templates[template] = sum(at(template, other) == found for other, found in hosts.items())
            best = max(templates, key=lambda template: (templates[template], template == usual, template), default=usual)
            if best != usual:
                print("host", name, partition["id"], variant, *best)
            for region, found in sorted(hosts.items()):
                if at(best, region) != found:
                    print("region", name, partition["id"], variant, region, *found)
