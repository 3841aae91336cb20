#![cfg_attr(fuzzing, no_main)]

hangar_fuzz::fuzz!("server_side_apply");
