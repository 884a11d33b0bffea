# XGrammar neither bounds nor stops its work, so one ambiguous grammar could fill a mask for minutes. Copies of some of its
# files, made in the build folder, report each unit of work to `vernier::spend_grammar_work`, which may throw. An edit that
# finds nothing to replace ends the configuration: another version of the library needs these looked at again.

function(replace_in_xgrammar text_name old new)
  string(FIND "${${text_name}}" "${old}" found)
  if(found EQUAL -1)
    message(FATAL_ERROR "cmake/XGrammarEdits.cmake: XGrammar's source has no '${old}'")
  endif()
  string(REPLACE "${old}" "${new}" edited "${${text_name}}")
  set(${text_name} "${edited}" PARENT_SCOPE)
endfunction()

set(xgrammar_declaration "// Changed by the build of Vernier: see cmake/XGrammarEdits.cmake.
#include <bitset>
#include <cstddef>
namespace vernier { void spend_grammar_work(std::size_t units); }
")

function(write_edited_xgrammar name text)
  set(path "${PROJECT_BINARY_DIR}/xgrammar/${name}")
  set(before "")
  if(EXISTS "${path}")
    file(READ "${path}" before)
  endif()
  set(whole "${xgrammar_declaration}${text}")
  if(NOT before STREQUAL whole)
    file(WRITE "${path}" "${whole}")
  endif()
endfunction()

function(edit_xgrammar root sources_name)
  # The parser: each state that is taken up, each waiting parent and each edge that is looked at.
  file(READ "${root}/cpp/earley_parser.cc" text)
  replace_in_xgrammar(text "  // Scan all the scanable states.
" "  vernier::spend_grammar_work(1 + latest_states.size());
")
  replace_in_xgrammar(text "    tmp_process_state_queue_.pop();
" "    tmp_process_state_queue_.pop();
    vernier::spend_grammar_work(1);
")
  replace_in_xgrammar(text "  // Check all the possible parent states.
  const auto& parent_states_map = rule_id_to_completable_states_[state.rule_start_pos];
" "  const auto& parent_states_map = rule_id_to_completable_states_[state.rule_start_pos];
  vernier::spend_grammar_work(parent_states_map.size() / 4);
")
  replace_in_xgrammar(text "        const auto in_vec = [&](const ParserState& state_) {
" "        const auto in_vec = [&](const ParserState& state_) {
          vernier::spend_grammar_work(rule_id_to_completable_states_.Back().size() / 4);
")
  replace_in_xgrammar(text "  for (const auto& edge : current_fsm.GetFsm().GetFsm().GetEdges(state.element_id)) {
    if ((!edge.IsCharRange())" "  vernier::spend_grammar_work(current_fsm.GetFsm().GetFsm().GetEdges(state.element_id).size() / 8);
  for (const auto& edge : current_fsm.GetFsm().GetFsm().GetEdges(state.element_id)) {
    if ((!edge.IsCharRange())")
  # No grammar here has budgets or captures; looking for them in each rule costs more than the mask of a narrow state.
  replace_in_xgrammar(text "  for (int32_t i = 0; i < grammar_->NumRules(); ++i) {
    has_budget_rules_" "  for (int32_t i = grammar_->NumRules(); i < grammar_->NumRules(); ++i) {
    has_budget_rules_")
  replace_in_xgrammar(text "  for (int32_t i = 0; i < grammar_->NumRules(); ++i) {
    const auto& rule = grammar_->GetRule(i);
    const auto* suffix_stop_info" "  for (int32_t i = grammar_->NumRules(); i < grammar_->NumRules(); ++i) {
    const auto& rule = grammar_->GetRule(i);
    const auto* suffix_stop_info")
  replace_in_xgrammar(text "  PushStateAndExpand(initial_state.has_value() ? *initial_state : RootInitialState());
}" "  vernier::spend_grammar_work(static_cast<std::size_t>(grammar->NumRules()) / 16);
  PushStateAndExpand(initial_state.has_value() ? *initial_state : RootInitialState());
}")
  write_edited_xgrammar(earley_parser.cc "${text}")

  # The masks of each state of a grammar: each token that is looked at.
  file(READ "${root}/cpp/grammar_compiler.cc" text)
  replace_in_xgrammar(text "      const auto& token = sorted_decoded_vocab[i].second;
      // This optimization is useful" "      vernier::spend_grammar_work(1);
      const auto& token = sorted_decoded_vocab[i].second;
      // This optimization is useful")
  # A compiled grammar is kept by GrammarCompiler; the library's own cache would keep what a stopped compilation threw.
  replace_in_xgrammar(text "  return grammar_level_cache_.Get(GrammarKey{grammar.ToString(), grammar->GetRootRule().name});
" "  return no_cache_compiler_.CompileGrammar(grammar);
")
  # Looking up a state's place costs as much as the rule is large.
  replace_in_xgrammar(text "!has_char_budget_rules_ && rule_level_cache_.has_value() &&
" "!has_char_budget_rules_ && rule_level_cache_.has_value() &&
                                       grammar_->per_rule_fsm_new_state_ids[init_rule_id_].size() < 4096 &&
")
  # The look-ahead of a counted run says what surely may follow, not what may not: a token that leaves it is tried when a
  # text stands there. Its masks are none of those of a rule with the same look-ahead.
  replace_in_xgrammar(text "        if ((!is_root_rule) && lookahead_accepted) {
          if (lookahead_completed || !is_exact_lookahead) {
            tmp_uncertain_indices_.push_back(uncertain_index);
" "        if (!lookahead_accepted && grammar_->GetRule(init_rule_id_).name.rfind(\"v_run_\", 0) == 0) {
          tmp_uncertain_indices_.push_back(uncertain_index);
        } else if ((!is_root_rule) && lookahead_accepted) {
          if (lookahead_completed || !is_exact_lookahead) {
            tmp_uncertain_indices_.push_back(uncertain_index);
")
  replace_in_xgrammar(text "        if ((!is_root_rule) && lookahead_accepted) {
          if (lookahead_completed || !is_exact_lookahead) {
            tmp_uncertain_indices_.push_back(i);
" "        if (!lookahead_accepted && grammar_->GetRule(init_rule_id_).name.rfind(\"v_run_\", 0) == 0) {
          tmp_uncertain_indices_.push_back(i);
        } else if ((!is_root_rule) && lookahead_accepted) {
          if (lookahead_completed || !is_exact_lookahead) {
            tmp_uncertain_indices_.push_back(i);
")
  replace_in_xgrammar(text "    lookahead_hash = GrammarFSMHasher::HashSequence(grammar_, lookahead_id);
" "    if (grammar_->GetRule(init_rule_id_).name.rfind(\"v_run_\", 0) != 0) {
      lookahead_hash = GrammarFSMHasher::HashSequence(grammar_, lookahead_id);
    }
")
  # A state at which few tokens can begin gets its mask when a text stands there: thousands of values or properties have
  # thousands of such states, and an answer sees few of them.
  replace_in_xgrammar(text "/******************* GrammarCompilerNoCache *******************/
" "static bool IsNarrowState(const Grammar& grammar, const TokenizerInfo& tokens, int32_t rule_id, int32_t state) {
  constexpr int kMostTokens = 4096;
  std::bitset<256> first;
  for (const auto& edge : grammar->per_rule_fsms[rule_id]->GetFsm().GetFsm().GetEdges(state)) {
    if (edge.IsToken() || edge.IsExcludeToken()) return false;
    if (!edge.IsCharRange()) continue;
    for (int c = edge.min; c <= edge.max; ++c) first.set(c);
  }
  std::vector<std::pair<int32_t, int32_t>> intervals;
  return GetPossibleTokenIntervals(tokens.GetSortedDecodedVocab(), first, intervals) <= kMostTokens;
}

")
  replace_in_xgrammar(text "      if (!rule_fsm->GetFsm().IsScanableState(i)) {
" "      vernier::spend_grammar_work(1);
      if (!rule_fsm->GetFsm().IsScanableState(i) ||
          IsNarrowState(compiled_grammar_impl->grammar, tokenizer_info_, rule_id, i)) {
")
  write_edited_xgrammar(grammar_compiler.cc "${text}")

  # The mask of a step: each state whose mask is joined, each token that is tried.
  file(READ "${root}/cpp/grammar_matcher.cc" text)
  replace_in_xgrammar(text "/******************* Tool functions for token mask *******************/
" "int GetPossibleTokenIntervals(
    const std::vector<std::pair<int32_t, std::string>>& sorted_decoded_vocab,
    const std::bitset<256>& first_char_mask,
    std::vector<std::pair<int32_t, int32_t>>& possible_intervals
);

")
  replace_in_xgrammar(text "    auto adaptive_token_mask_it = adaptive_token_mask_cache.find(state);
    XGRAMMAR_CHECK(adaptive_token_mask_it != adaptive_token_mask_cache.end()) << state;
" "    vernier::spend_grammar_work(1 + static_cast<std::size_t>(tokenizer_info_.GetVocabSize()) / 4096);
    auto adaptive_token_mask_it = adaptive_token_mask_cache.find(state);
    if (adaptive_token_mask_it == adaptive_token_mask_cache.end()) {
      narrow_states.push_back(state);
      continue;
    }
")
  replace_in_xgrammar(text "  std::vector<std::pair<ParserState, decltype(adaptive_token_mask_cache.cbegin())>>
" "  std::vector<ParserState> narrow_states;
  std::vector<std::pair<ParserState, decltype(adaptive_token_mask_cache.cbegin())>>
")
  # States without a mask are tried together, each token that may begin at one of them.
  replace_in_xgrammar(text "  // Finally update the rejected_ids bitset
" "  if (!narrow_states.empty()) {
    std::bitset<256> first;
    for (const auto& state : narrow_states) {
      for (const auto& edge : grammar_->per_rule_fsms[state.rule_id]->GetFsm().GetFsm().GetEdges(state.element_id)) {
        if (!edge.IsCharRange()) continue;
        for (int c = edge.min; c <= edge.max; ++c) first.set(c);
      }
    }
    std::vector<std::pair<int32_t, int32_t>> intervals;
    GetPossibleTokenIntervals(sorted_decoded_vocab, first, intervals);
    PushStatesToCheck(narrow_states, is_completed_.back());
    const std::string* previous = nullptr;
    int matched = 0;
    for (const auto& [begin, end] : intervals) {
      for (int32_t i = begin; i < end; ++i) {
        if (tmp_accepted_bitset_[sorted_decoded_vocab[i].first]) continue;
        vernier::spend_grammar_work(1);
        const std::string& token = sorted_decoded_vocab[i].second;
        const int common =
            previous == nullptr
                ? 0
                : static_cast<int>(
                      std::mismatch(token.begin(), token.end(), previous->begin(), previous->end()).first - token.begin()
                  );
        const bool known = previous != nullptr && common > matched;
        previous = &token;
        bool accepted = !known;
        if (!known && common < matched) {
          PopLastStates(matched - common);
          matched = common;
        }
        while (accepted && matched < static_cast<int>(token.size())) {
          accepted = Advance(static_cast<uint8_t>(token[matched]));
          matched += accepted ? 1 : 0;
        }
        if (accepted) {
          tmp_accepted_bitset_.Set(sorted_decoded_vocab[i].first, true);
        } else {
          i = subtree_range[i] - 1;
        }
      }
    }
    PopLastStates(matched + 1);
  }

  // Finally update the rejected_ids bitset
")
  replace_in_xgrammar(text "      const auto cur_token_idx = *token_it++;
" "      const auto cur_token_idx = *token_it++;
      vernier::spend_grammar_work(1);
")
  write_edited_xgrammar(grammar_matcher.cc "${text}")

  # The grammar's own form: each expression, state and edge that is made, and each pass over them.
  file(READ "${root}/cpp/grammar_builder.cc" text)
  replace_in_xgrammar(text "int32_t GrammarBuilder::AddGrammarExpr(const GrammarExpr& grammar_expr) {
" "int32_t GrammarBuilder::AddGrammarExpr(const GrammarExpr& grammar_expr) {
  vernier::spend_grammar_work(1 + static_cast<std::size_t>(grammar_expr.data_len) / 8);
")
  write_edited_xgrammar(grammar_builder.cc "${text}")
  file(READ "${root}/cpp/fsm.cc" text)
  replace_in_xgrammar(text "    edges_.emplace_back();
    return edges_.size() - 1;" "    vernier::spend_grammar_work(1);
    edges_.emplace_back();
    return edges_.size() - 1;")
  replace_in_xgrammar(text "    edges_[from].push_back({min, max, to});" "    vernier::spend_grammar_work(1);
    edges_[from].push_back({min, max, to});")
  replace_in_xgrammar(text "  if (NumStates() > max_num_states) {
    return *this;" "  vernier::spend_grammar_work(static_cast<std::size_t>(NumStates()) / 2);
  if (NumStates() > max_num_states) {
    return *this;")
  replace_in_xgrammar(text "    int n = result.NumStates();
    union_find_set.Clear();
" "    int n = result.NumStates();
    union_find_set.Clear();
    vernier::spend_grammar_work(static_cast<std::size_t>(n));
")
  replace_in_xgrammar(text "        int sibling = siblings[group_begin].peer;
" "        vernier::spend_grammar_work((static_cast<std::size_t>(group_begin) & 31) == 31);
        int sibling = siblings[group_begin].peer;
")
  write_edited_xgrammar(fsm.cc "${text}")
  file(READ "${root}/cpp/grammar_functor.cc" text)
  replace_in_xgrammar(text "    int current_new_state_id = original_state_id_to_new_id[current_old_state_id];
" "    int current_new_state_id = original_state_id_to_new_id[current_old_state_id];
    vernier::spend_grammar_work(1 + hash_and_target.size() / 4);
")
  replace_in_xgrammar(text "  // Try to find a simple cycle.
" "  // Try to find a simple cycle.
  vernier::spend_grammar_work(ref_graph_from_referee_to_referrer_.size() / 8);
")
  # What GbnfWriter counts (`v_run_...`) stays a count.
  replace_in_xgrammar(text "    int64_t upper = grammar_expr[2];
    return HandleRepetitionRange" "    int64_t upper = grammar_expr[2];
    if (base_grammar_->GetRule(ref_rule_id).name.rfind(\"v_run_\", 0) == 0) {
      return builder_->AddRepeat(ref_rule_id, static_cast<int32_t>(lower), static_cast<int32_t>(upper));
    }
    return HandleRepetitionRange")
  write_edited_xgrammar(grammar_functor.cc "${text}")

  # Vernier writes its grammars itself (src/grammar): XGrammar's own front ends, half of its source, are not compiled.
  file(READ "${root}/cpp/grammar.cc" text)
  replace_in_xgrammar(text "/******************* Grammar *******************/
" "static Grammar not_compiled() { throw std::logic_error(\"Vernier is built without this front end of XGrammar\"); }
")
  replace_in_xgrammar(text "JSONSchemaToGrammar(
      schema, any_whitespace, indent, separators, strict_mode, max_whitespace_cnt, any_order
  )" "not_compiled()")
  replace_in_xgrammar(text "LarkToGrammar(lark_string, tokenizer_info, named_grammars)" "not_compiled()")
  replace_in_xgrammar(text "StructuralTagToGrammar(structural_tag_json, tokenizer_info).ToVariant()" "not_compiled()")
  write_edited_xgrammar(grammar.cc "${text}")

  set(sources "${${sources_name}}")
  list(FILTER sources EXCLUDE REGEX "/converter_ext/|/(json_schema_converter|lark_converter|structural_tag)\\.cc$")
  foreach(name earley_parser fsm grammar grammar_builder grammar_compiler grammar_functor grammar_matcher)
    list(REMOVE_ITEM sources "${root}/cpp/${name}.cc")
    list(APPEND sources "${PROJECT_BINARY_DIR}/xgrammar/${name}.cc")
  endforeach()
  set(${sources_name} "${sources}" PARENT_SCOPE)
endfunction()
