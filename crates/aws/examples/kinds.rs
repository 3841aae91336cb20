//! Writes what follows from rules and models, docs/aws-kinds.md and data/places.txt: `cargo run -p aws --example kinds`.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/aws-kinds.md");
    std::fs::write(file, aws::kinds::table::page())?;
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/data/places.txt");
    std::fs::write(file, aws::kinds::places::table()?)?;
    Ok(())
}
