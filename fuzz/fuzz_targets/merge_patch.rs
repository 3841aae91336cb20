#![cfg_attr(fuzzing, no_main)]

fuzz::fuzz!("merge_patch");
