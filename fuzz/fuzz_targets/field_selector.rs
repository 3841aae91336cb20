#![cfg_attr(fuzzing, no_main)]

fuzz::fuzz!("field_selector");
