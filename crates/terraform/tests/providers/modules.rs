//! Modules on a real server with a real provider process: made in order, changed, shrunk, and gone in reverse.

use serde_json::{Value as Json, json};
use terraform::module::kinds::{DEFINITIONS, MODULES};

use super::plane::*;

const RESOURCES: &str = "resources.terraform.hangar.dev";

const SHOP: &str = r#"
variable "shops" {
  type    = set(string)
  default = ["north", "south"]
}
variable "depots" {
  type    = number
  default = 2
}
variable "pass_word" {
  sensitive = true
  default   = "none at all"
}

locals {
  size = var.depots * 10
}

resource "shelf_thing" "depot" {
  count  = var.depots
  name   = "depot-${count.index}"
  size   = local.size
  secret = var.pass_word
}

resource "shelf_thing" "shop" {
  for_each = var.shops
  name     = "shop ${each.key}"
  note     = join(",", shelf_thing.depot[*].private_ip_address)
  tags     = { depots = length(shelf_thing.depot) }
  network {
    subnet = shelf_thing.depot[0].id
  }
  dynamic "rule" {
    for_each = [80, 443]
    content {
      port = rule.value
    }
  }
}

output "shop_ids" {
  value = { for key, shop in shelf_thing.shop : key => shop.id }
}
output "tokens" {
  value     = shelf_thing.depot[*].token
  sensitive = true
}
"#;

async fn files(plane: &Plane, text: &str) {
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shop"}, "data": {"main.tf": text},
    });
    plane.create("configmaps", map).await;
}

fn module(spec: Json) -> Json {
    let mut spec = spec;
    spec["providerRef"] = json!({"name": "shelf"});
    json!({"apiVersion": "tf.kubeform.com/v1alpha1", "kind": "Module", "metadata": {"name": "shop"}, "spec": spec})
}

async fn shop(plane: &Plane) {
    plane.provider_secret().await;
    files(plane, SHOP).await;
    plane.create(MODULES, module(json!({"moduleRef": {"configMap": {"name": "shop"}}}))).await;
}

/// Names of what is there, sorted.
fn names(plane: &Plane) -> Vec<String> {
    let mut names: Vec<String> =
        plane.world.things().iter().map(|thing| thing["name"].as_str().unwrap().to_owned()).collect();
    names.sort();
    names
}

fn named(plane: &Plane, name: &str) -> Json {
    plane.world.things().into_iter().find(|thing| thing["name"] == name).unwrap()
}

#[tokio::test]
async fn from_beginning_to_end() {
    let plane = Plane::new().await;
    shop(&plane).await;
    let object = plane.current(MODULES, "shop").await;
    assert_eq!(names(&plane), ["depot-0", "depot-1", "shop north", "shop south"]);
    let north = named(&plane, "shop north");
    assert_eq!(north["network"][0]["subnet"], named(&plane, "depot-0")["id"]);
    assert_eq!((&north["tags"]["depots"], &north["rule"][1]["port"]), (&json!("2"), &json!(443)));
    assert_eq!(
        (&named(&plane, "depot-1")["size"], &named(&plane, "depot-1")["secret"]),
        (&json!(20), &json!("none at all"))
    );
    let output = &object["spec"]["resource"]["output"];
    assert_eq!(output["shopIDS"]["north"], north["id"]);
    assert_eq!(object["metadata"]["finalizers"], json!(["kfc.io"]));
    assert_eq!(object["status"]["resources"][0]["address"], "shelf_thing.depot[0]");
    // What is sensitive is in Secrets, and nowhere else.
    let secret = plane.get("secrets", "shop-module-sensitive").await.unwrap();
    let tokens: Json = serde_json::from_str(&secret_value(&secret, "output").unwrap()).unwrap();
    assert!(tokens["tokens"][1].as_str().unwrap().starts_with("token of thing-"));
    let child = object["status"]["resources"][0]["name"].as_str().unwrap();
    let child = plane.get(RESOURCES, child).await.unwrap();
    for shown in [&object, &child] {
        assert!(!shown.to_string().contains("token of") && !shown.to_string().contains("none at all"));
    }

    // An edit of a variable: one shop comes, one goes, a depot more; what stands on the depots follows.
    let before = north["id"].clone();
    let edit = json!({"spec": {"resource": {"input": {"shops": ["north", "west"], "depots": 3}}}});
    plane.patch(MODULES, "shop", edit).await;
    plane.until(MODULES, "shop", |_| names(&plane).len() == 5).await;
    let object = plane.current(MODULES, "shop").await;
    assert_eq!(names(&plane), ["depot-0", "depot-1", "depot-2", "shop north", "shop west"]);
    let north = named(&plane, "shop north");
    assert_eq!((&north["id"], &north["tags"]["depots"]), (&before, &json!("3")));
    assert_eq!(named(&plane, "depot-0")["size"], json!(30));
    assert!(object["spec"]["resource"]["output"]["shopIDS"].get("south").is_none());

    // A resource that is taken out of the files is destroyed, after what stood on it.
    let less = SHOP.split("resource \"shelf_thing\" \"shop\"").next().unwrap();
    plane.patch("configmaps", "shop", json!({"data": {"main.tf": less}})).await;
    let edit = json!({"spec": {"resource": {"input": {"depots": 1}}}});
    plane.patch(MODULES, "shop", edit).await;
    plane.until(MODULES, "shop", |_| names(&plane) == ["depot-0"]).await;
    let object = plane.current(MODULES, "shop").await;
    assert_eq!(object["spec"]["resource"].get("output").unwrap_or(&json!({})), &json!({}));

    plane.delete(MODULES, "shop").await;
    plane.gone(MODULES, "shop").await;
    assert!(plane.world.things().is_empty());
}

#[tokio::test]
async fn it_goes_from_the_top() {
    let plane = Plane::new().await;
    shop(&plane).await;
    let object = plane.current(MODULES, "shop").await;
    plane.world.fault("ApplyResourceChange: fail");
    plane.delete(MODULES, "shop").await;
    plane.failed(MODULES, "shop", "the shelf is out of order").await;
    // The shops are being deleted; no depot is as long as one of them is there.
    for line in object["status"]["resources"].as_array().unwrap() {
        let child = plane.get(RESOURCES, line["name"].as_str().unwrap()).await.unwrap();
        let is_shop = line["address"].as_str().unwrap().contains("shop");
        assert_eq!(child["metadata"].get("deletionTimestamp").is_some(), is_shop, "{line}");
    }
    plane.world.fault("");
    plane.gone(MODULES, "shop").await;
    assert!(plane.world.things().is_empty());
}

#[tokio::test]
async fn we_die_in_the_middle() {
    let mut plane = Plane::new().await;
    plane.world.fault("PlanResourceChange: fail");
    shop(&plane).await;
    plane.failed(MODULES, "shop", "the shelf is out of order").await;
    plane.kill().await;
    plane.world.fault("");
    plane.restart().await;
    plane.current(MODULES, "shop").await;
    assert_eq!(names(&plane), ["depot-0", "depot-1", "shop north", "shop south"]);
    // An edit that nobody saw.
    plane.kill().await;
    plane.patch(MODULES, "shop", json!({"spec": {"resource": {"input": {"shops": ["north"]}}}})).await;
    plane.restart().await;
    plane.until(MODULES, "shop", |_| names(&plane) == ["depot-0", "depot-1", "shop north"]).await;
    // A deletion that was begun.
    plane.world.fault("ApplyResourceChange: fail");
    plane.delete(MODULES, "shop").await;
    plane.failed(MODULES, "shop", "the shelf is out of order").await;
    plane.kill().await;
    plane.world.fault("");
    plane.restart().await;
    plane.gone(MODULES, "shop").await;
    assert!(plane.world.things().is_empty());
}

#[tokio::test]
async fn what_is_wrong_with_a_module_is_said_and_nothing_is_made() {
    let plane = Plane::new().await;
    plane.provider_secret().await;
    plane.create(MODULES, module(json!({"moduleRef": {"configMap": {"name": "shop"}}}))).await;
    plane.failed(MODULES, "shop", "ConfigMap default/shop does not exist").await;
    files(&plane, "resource \"shelf_thing\" \"a\" {\n  name = \"a\"\n}\n\nremoved {}\n").await;
    plane.failed(MODULES, "shop", "main.tf:5: removed blocks are not supported").await;
    let write =
        async |text: &str| plane.patch("configmaps", "shop", json!({"data": {"main.tf": text}})).await;
    for (text, says) in [
        (
            "resource \"shelf_thing\" \"a\" {\n  name = \"a\"\n}\nresource \"other_thing\" \"b\" {}\n",
            "main.tf:4: no Provider that is ready has the type other_thing",
        ),
        (
            "resource \"shelf_thing\" \"a\" {\n  name = \"a\"\n}\nresource \"shelf_thing\" \"b\" {\n  colour = 1\n}\n",
            "main.tf:5: there is no argument \"colour\"",
        ),
        (
            "resource \"shelf_thing\" \"a\" {\n  name = \"a\"\n}\ndata \"shelf_other\" \"b\" {}\n",
            "main.tf:4: no Provider that is ready has the data source shelf_other",
        ),
        (
            "resource \"shelf_thing\" \"a\" {\n  provider = shelf.west\n  name = \"a\"\n}\n",
            "main.tf:1: nothing configures the provider shelf.west; spec.providerRefs can",
        ),
        ("module \"a\" {\n  source = \"./a\"\n}\n", "the module has no .tf files in a/"),
        ("variable \"a\" {}", "the variable \"a\" (main.tf:1) is required"),
        ("resource \"shelf_thing\" \"a\" {\n  name = \n}", "main.tf:2: this cannot be read"),
    ] {
        write(text).await;
        plane.failed(MODULES, "shop", says).await;
    }
    assert!(plane.world.things().is_empty());
    // What the provider refuses is said by its resource, and by the module.
    write("resource \"shelf_thing\" \"a\" {\n  name = \"a\"\n  rule {\n    port = 0\n  }\n}\n").await;
    plane.failed(MODULES, "shop", "shelf_thing.a: Provider: 0 is no port (spec.resource.rule[0].port)").await;
    assert!(plane.world.things().is_empty());
    write("resource \"shelf_thing\" \"a\" {\n  name = \"a\"\n}\n").await;
    plane.current(MODULES, "shop").await;
    assert_eq!(names(&plane), ["a"]);
}

/// The objects of Kubeform's own pages: a definition with a schema, its repository where an operator has put it.
#[tokio::test]
async fn a_definition() {
    let plane = Plane::new().await;
    plane.provider_secret().await;
    let place = plane.world.cloud.path().join("modules/github.com/example/thing@v1");
    std::fs::create_dir_all(&place).unwrap();
    let text = "variable \"thing_name\" {}\nvariable \"key\" {\n  sensitive = true\n}\n\
        resource \"shelf_thing\" \"this\" {\n  name   = var.thing_name\n  secret = var.key\n}\n\
        output \"thing_id\" {\n  value = shelf_thing.this.id\n}\n";
    std::fs::write(place.join("main.tf"), text).unwrap();
    let named = json!({"type": "object", "required": ["thingName", "key"], "properties": {
        "thingName": {"type": "string", "maxLength": 5}, "key": {"type": "string"},
    }});
    let definition = json!({
        "apiVersion": "tf.kubeform.com/v1alpha1", "kind": "ModuleDefinition", "metadata": {"name": "thing"},
        "spec": {
            "schema": {"type": "object", "properties": {"input": named, "output": {"type": "object"}}},
            "moduleRef": {"git": {"ref": "github.com/example/thing", "checkOut": "v1"}},
            "provider": {"name": "shelf", "source": "example/shelf"},
        },
    });
    let object = module(json!({
        "moduleDef": "thing", "secretRef": {"name": "keys"},
        "resource": {"input": {"thingName": "too long"}},
    }));
    plane.create(MODULES, object).await;
    plane.failed(MODULES, "shop", "ModuleDefinition thing does not exist").await;
    plane.create(DEFINITIONS, definition).await;
    plane.failed(MODULES, "shop", "Secret default/keys does not exist").await;
    plane.secret("keys", "input", json!({"key": "hunter22"})).await;
    plane.failed(MODULES, "shop", "spec.resource.input.thingName: Too long: may not be more than 5").await;
    plane.patch(MODULES, "shop", json!({"spec": {"resource": {"input": {"thingName": "short"}}}})).await;
    let object = plane.current(MODULES, "shop").await;
    let thing = named_thing(&plane);
    assert_eq!((&thing["name"], &thing["secret"]), (&json!("short"), &json!("hunter22")));
    assert_eq!(object["spec"]["resource"]["output"]["thingID"], thing["id"]);
    assert!(!object.to_string().contains("hunter22"));
    // A Secret that changes is followed.
    plane.patch("secrets", "keys", json!({"stringData": {"input": "{\"key\":\"other word\"}"}})).await;
    plane.until(MODULES, "shop", |_| named_thing(&plane)["secret"] == "other word").await;
    plane.delete(MODULES, "shop").await;
    plane.gone(MODULES, "shop").await;
    assert!(plane.world.things().is_empty());
}

fn named_thing(plane: &Plane) -> Json {
    named(plane, "short")
}
