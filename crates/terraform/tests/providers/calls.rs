//! Modules with others in them, with data, and with providers of their own; and those that Kubeform left.

use std::io::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use crypto_secretbox::XSalsa20Poly1305;
use crypto_secretbox::aead::{Aead as _, KeyInit as _};
use serde_json::{Value as Json, json};
use sha2::{Digest as _, Sha256};
use terraform::module::kinds::MODULES;

use super::plane::*;

const RESOURCES: &str = "resources.terraform.hangar.dev";

async fn files(plane: &Plane, data: Json) {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shop"}, "data": data});
    plane.create("configmaps", map).await;
}

fn module(name: &str, module_ref: Json) -> Json {
    json!({
        "apiVersion": "tf.kubeform.com/v1alpha1", "kind": "Module", "metadata": {"name": name},
        "spec": {"providerRef": {"name": "shelf"}, "moduleRef": module_ref},
    })
}

fn of_config_map() -> Json {
    module("shop", json!({"configMap": {"name": "shop"}}))
}

/// Names of what is there, sorted.
fn names(plane: &Plane) -> Vec<String> {
    let mut names: Vec<String> =
        plane.world.things().iter().map(|thing| thing["name"].as_str().unwrap().to_owned()).collect();
    names.sort();
    names
}

const DEPOT: &str = r#"
variable "place" {
  type = string
}
resource "shelf_thing" "this" {
  name = "depot ${var.place}"
  note = trimspace(file("${path.module}/note.txt"))
}
output "id" {
  value = shelf_thing.this.id
}
"#;

#[tokio::test]
async fn called_modules_and_data() {
    let plane = Plane::new().await;
    plane.provider_secret().await;
    let root = r#"
        variable "places" {
          default = ["north", "south"]
        }
        module "depot" {
          source   = "./depot"
          for_each = toset(var.places)
          place    = each.key
        }
        data "shelf_count" "all" {
          depends_on = [module.depot]
        }
        resource "shelf_thing" "shop" {
          name = "shop"
          size = data.shelf_count.all.count
          note = join(",", values(module.depot)[*].id)
          lifecycle {
            ignore_changes = [size, note]
          }
        }
        output "depots" {
          value = module.depot["north"].id
        }
    "#;
    files(&plane, json!({"main.tf": root, "depot--main.tf": DEPOT, "depot--note.txt": "of a file\n"})).await;
    plane.world.fault("ReadDataSource: fail");
    plane.create(MODULES, of_config_map()).await;
    // What cannot be read is said, and what needs it is not made.
    plane.failed(MODULES, "shop", "data.shelf_count.all: ").await;
    assert_eq!(names(&plane), ["depot north", "depot south"]);
    plane.world.fault("");
    let object = plane.current(MODULES, "shop").await;
    assert_eq!(names(&plane), ["depot north", "depot south", "shop"]);
    let find = |name: &str| plane.world.things().into_iter().find(|thing| thing["name"] == name).unwrap();
    assert_eq!(find("shop")["size"], json!(2), "read after what it has to come after");
    assert_eq!(find("depot north")["note"], "of a file");
    assert_eq!(object["spec"]["resource"]["output"]["depots"], find("depot north")["id"]);
    let lines = object["status"]["resources"].as_array().unwrap();
    assert!(lines.iter().any(|line| line["address"] == "module.depot[\"north\"].shelf_thing.this"));
    // There are three now, and one depot less: what is not to be changed is not.
    plane.patch(MODULES, "shop", json!({"spec": {"resource": {"input": {"places": ["north"]}}}})).await;
    plane.until(MODULES, "shop", |_| names(&plane) == ["depot north", "shop"]).await;
    plane.current(MODULES, "shop").await;
    assert_eq!(find("shop")["size"], json!(2));
    plane.delete(MODULES, "shop").await;
    plane.gone(MODULES, "shop").await;
    assert!(plane.world.things().is_empty());
}

#[tokio::test]
async fn providers_of_a_module() {
    let plane = Plane::new().await;
    plane.provider_secret().await;
    let west = plane.world.part("west");
    let root = r#"
        variable "west" {}
        variable "word" {
          sensitive = true
        }
        provider "shelf" {
          alias     = "west"
          directory = var.west
          password  = var.word
        }
        resource "shelf_thing" "east" {
          name = "east"
        }
        module "west" {
          source    = "./thing"
          providers = { shelf = shelf.west }
        }
        data "shelf_count" "west" {
          provider   = shelf.west
          depends_on = [module.west]
        }
        output "west" {
          value = data.shelf_count.west.count
        }
    "#;
    let thing = "resource \"shelf_thing\" \"this\" {\n  name = \"west\"\n}\n";
    files(&plane, json!({"main.tf": root, "thing--main.tf": thing})).await;
    plane.secret("words", "input", json!({"word": "wrong"})).await;
    let mut object = of_config_map();
    object["spec"]["resource"] = json!({"input": {"west": west}});
    object["spec"]["secretRef"] = json!({"name": "words"});
    plane.create(MODULES, object).await;
    // Credentials that the module itself makes up are its own to mend.
    plane.failed(MODULES, "shop", "the password is (sensitive)").await;
    plane.patch("secrets", "words", json!({"stringData": {"input": "{\"word\":\"hunter22\"}"}})).await;
    let object = plane.current(MODULES, "shop").await;
    assert_eq!(names(&plane), ["east"]);
    let there = |directory: &std::path::Path| {
        let all = std::fs::read_dir(directory).unwrap().flatten();
        all.filter(|one| one.path().extension().is_some_and(|end| end == "json")).count()
    };
    assert_eq!((there(&west), &object["spec"]["resource"]["output"]["west"]), (1, &json!(1)));
    assert!(!object.to_string().contains("hunter22"));
    plane.delete(MODULES, "shop").await;
    plane.gone(MODULES, "shop").await;
    assert_eq!((there(&west), plane.world.things().len()), (0, 0));
}

#[tokio::test]
async fn an_archive() {
    let plane = Plane::new().await;
    plane.provider_secret().await;
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let root = "module \"depot\" {\n  source = \"./depot\"\n  place  = \"here\"\n}\n";
    for (name, text) in
        [("top/main.tf", root), ("top/depot/main.tf", DEPOT), ("top/depot/note.txt", "packed")]
    {
        zip.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
        zip.write_all(text.as_bytes()).unwrap();
    }
    let bytes = zip.finish().unwrap().into_inner();
    let directory = plane.world.cloud.path().join("modules");
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(directory.join("depot.zip"), &bytes).unwrap();
    let sum: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    let archive = |sum: &str| json!({"archive": {"url": "file:///depot.zip", "sha256": sum}});
    plane.create(MODULES, module("depot", archive(&"0".repeat(64)))).await;
    plane.failed(MODULES, "depot", &format!("the archive has the checksum sha256:{sum}")).await;
    assert!(plane.world.things().is_empty());
    plane.patch(MODULES, "depot", json!({"spec": {"moduleRef": archive(&sum)}})).await;
    plane.current(MODULES, "depot").await;
    assert_eq!(plane.world.things()[0]["note"], "packed");
    // The same from another module, by its source.
    let text = format!(
        "module \"packed\" {{\n  source = \"file:///depot.zip//depot?checksum=sha256:{sum}\"\n  place  = \"there\"\n}}\n"
    );
    files(&plane, json!({"main.tf": text})).await;
    plane.create(MODULES, of_config_map()).await;
    plane.current(MODULES, "shop").await;
    assert_eq!(names(&plane), ["depot here", "depot there"]);
}

/// What is not to be destroyed stays, and is said to.
#[tokio::test]
async fn what_must_not_be_destroyed() {
    let plane = Plane::new().await;
    plane.provider_secret().await;
    let text = "resource \"shelf_thing\" \"a\" {\n  count = 1\n  name  = \"a\"\n  lifecycle {\n    prevent_destroy = true\n  }\n}\n";
    files(&plane, json!({"main.tf": text})).await;
    plane.create(MODULES, of_config_map()).await;
    plane.current(MODULES, "shop").await;
    let edit = json!({"data": {"main.tf": text.replace("count = 1", "count = 0")}});
    plane.patch("configmaps", "shop", edit).await;
    plane.failed(MODULES, "shop", "can't be terminated").await;
    assert_eq!(names(&plane), ["a"]);
    plane.patch("configmaps", "shop", json!({"data": {"main.tf": text}})).await;
    plane.current(MODULES, "shop").await;
}

/// A state as Kubeform's controller of modules keeps it: `resources` of the module `shop`.
pub fn sealed(resources: &[Json], key: &[u8; 32]) -> String {
    let state = json!({
        "version": 4, "terraform_version": "1.0.0", "serial": 3, "lineage": "l", "outputs": {}, "resources": resources,
    });
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), Default::default());
    packed.write_all(state.to_string().as_bytes()).unwrap();
    let nonce = [9_u8; 24];
    let cipher = XSalsa20Poly1305::new(key.into());
    let sealed = cipher.encrypt(&nonce.into(), packed.finish().unwrap().as_slice()).unwrap();
    String::from_utf8(base91::slice_encode(&[&nonce[..], &sealed].concat())).unwrap()
}

/// One of those resources, with an instance for each key.
pub fn left(name: &str, instances: impl IntoIterator<Item = (Json, Json)>) -> Json {
    let instance = |(key, thing): (Json, Json)| json!({"index_key": key, "schema_version": 1, "attributes": thing, "private": STANDARD.encode("x")});
    json!({
        "module": "module.shop", "mode": "managed", "type": "shelf_thing", "name": name,
        "provider": "provider[\"registry.terraform.io/test/shelf\"]",
        "instances": instances.into_iter().map(instance).collect::<Vec<_>>(),
    })
}

/// A module that Kubeform's controller made, with what it wrote into `spec.state`.
#[tokio::test]
async fn what_kubeform_left_is_taken_over() {
    let plane = Plane::new().await;
    plane.provider_secret().await;
    // What is there, made by somebody else.
    let text = "variable \"names\" {\n  default = [\"a\", \"b\"]\n}\nresource \"shelf_thing\" \"it\" {\n  \
        for_each = toset(var.names)\n  name = each.key\n  size = 3\n}\n";
    files(&plane, json!({"main.tf": text})).await;
    plane.create(MODULES, module("maker", json!({"configMap": {"name": "shop"}}))).await;
    let made = plane.current(MODULES, "maker").await;
    plane
        .patch(
            MODULES,
            "maker",
            json!({"metadata": {"annotations": {"hangar.dev/deletion-policy": "retain"}}}),
        )
        .await;
    for line in made["status"]["resources"].as_array().unwrap() {
        let retained = |object: Option<&Json>| {
            object.unwrap()["metadata"]["annotations"]["hangar.dev/deletion-policy"] == "retain"
        };
        plane.until(RESOURCES, line["name"].as_str().unwrap(), retained).await;
    }
    plane.delete(MODULES, "maker").await;
    plane.gone(MODULES, "maker").await;
    let before = plane.world.things();
    assert_eq!(before.len(), 2);
    // As Kubeform keeps it.
    let key = [7_u8; 32];
    let state = left("it", before.iter().map(|thing| (thing["name"].clone(), thing.clone())));
    let mut object = of_config_map();
    object["metadata"]["finalizers"] = json!(["kfc.io"]);
    object["spec"]["state"] = json!(sealed(&[state], &key));
    // Nothing may be made, changed or deleted from here on.
    plane.world.fault("ApplyResourceChange: die");
    plane.create(MODULES, object).await;
    plane
        .failed(MODULES, "shop", "there are resources that Kubeform made; name the Secret with its key")
        .await;
    assert_eq!(plane.world.things(), before);
    let from = json!({"terraform.hangar.dev/kubeform-key-from": "kubeform"});
    plane.patch(MODULES, "shop", json!({"metadata": {"annotations": from}})).await;
    plane.failed(MODULES, "shop", "Secret default/kubeform does not exist").await;
    let secret = |key: &[u8]| {
        json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "kubeform"},
            "stringData": {"secret-key": STANDARD.encode(key)},
        })
    };
    plane.create("secrets", secret(&[8; 32])).await;
    plane.failed(MODULES, "shop", "the key does not open it").await;
    plane.patch("secrets", "kubeform", secret(&key)).await;
    let object = plane.current(MODULES, "shop").await;
    plane.until(MODULES, "shop", |object| object.unwrap()["spec"].get("state").is_none()).await;
    assert_eq!(plane.world.things(), before, "nothing in the cloud was touched");
    assert_eq!(object["status"]["resources"].as_array().unwrap().len(), 2);
    // From now on it is a module like another.
    plane.world.fault("");
    plane.patch(MODULES, "shop", json!({"spec": {"resource": {"input": {"names": ["a"]}}}})).await;
    plane.until(MODULES, "shop", |_| names(&plane) == ["a"]).await;
    plane.delete(MODULES, "shop").await;
    plane.gone(MODULES, "shop").await;
    assert!(plane.world.things().is_empty());
}
