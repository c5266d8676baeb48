(* RRD files into one CSV with Lwt, as in "Async OCaml with Lwt": a pool of rrdtool's processes, Lwt_io for their pipes.
   Usage: export RRDTOOLS LIST OUT. The list has a line "from TAB to", then a line "path TAB constant columns" for each file.
   As there, all files are begun at once and the pool lets so many through; a reply is one block of the output. *)

open Lwt.Infix

let starts_with prefix line =
  String.length line >= String.length prefix && String.sub line 0 (String.length prefix) = prefix

let ends_with_nan word =
  let n = String.length word in
  n >= 3 && String.sub word (n - 3) 3 = "nan"

(* A reply's line as a line of the output. *)
let convert constant line block =
  match String.index_opt line ':' with
  | None -> ()
  | Some colon ->
      Buffer.add_string block (String.sub line 0 colon);
      Buffer.add_string block constant;
      let values = String.sub line (colon + 1) (String.length line - colon - 1) in
      let words = List.filter (fun word -> word <> "") (String.split_on_char ' ' values) in
      List.iteri
        (fun place word ->
          if place > 0 then Buffer.add_char block ',';
          if not (ends_with_nan word) then Buffer.add_string block word)
        words;
      Buffer.add_char block '\n'

let query pool out (from, till) (path, constant) =
  Lwt_pool.use pool (fun rrdtool ->
      let command = Printf.sprintf "fetch %s AVERAGE -s %s -e %s" path from till in
      Lwt_io.write_line rrdtool#stdin command >>= fun () ->
      Lwt_io.flush rrdtool#stdin >>= fun () ->
      let block = Buffer.create 16384 in
      let rec read () =
        Lwt_io.read_line rrdtool#stdout >>= fun line ->
        if starts_with "OK u:" line then Lwt_io.write out (Buffer.contents block)
        else if starts_with "ERROR" line then Lwt.fail_with line
        else begin
          convert constant line block;
          read ()
        end
      in
      read ())

let pair line =
  match String.index_opt line '\t' with
  | Some tab -> (String.sub line 0 tab, String.sub line (tab + 1) (String.length line - tab - 1))
  | None -> failwith ("no tab: " ^ line)

let () =
  let rrdtools = int_of_string Sys.argv.(1) in
  let rec lines input acc =
    match input_line input with line -> lines input (pair line :: acc) | exception End_of_file -> List.rev acc
  in
  let input = open_in Sys.argv.(2) in
  let interval, files =
    match lines input [] with interval :: files -> (interval, files) | [] -> failwith "the list is empty"
  in
  close_in input;
  let pool =
    Lwt_pool.create rrdtools
      ~dispose:(fun rrdtool -> rrdtool#close >|= ignore)
      (fun () -> Lwt.return (Lwt_process.open_process ("", [| "rrdtool"; "-" |])))
  in
  Lwt_main.run
    (Lwt_io.with_file ~mode:Lwt_io.output ~buffer:(Lwt_bytes.create 131072) Sys.argv.(3) (fun out ->
         Lwt_list.iter_p (query pool out interval) files)
    >>= fun () -> Lwt_pool.clear pool)
