import tseslint from 'typescript-eslint';

export default tseslint.config(...tseslint.configs.recommended, {
  rules: { '@typescript-eslint/no-redeclare': 'off' } // a Jupyter token has its interface's name
});
