import tseslint from "typescript-eslint";

export default tseslint.config(...tseslint.configs.strictTypeChecked, {
  languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname } },
  rules: {
    "@typescript-eslint/restrict-template-expressions": ["error", { allowNumber: true }],
    "@typescript-eslint/no-non-null-assertion": "off",
    complexity: ["error", 14],
    "max-lines": ["error", 500],
    "max-lines-per-function": ["error", 80],
  },
});
